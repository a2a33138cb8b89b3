// Elements of the page. Whatever comes from the daemon is put in as text, never as markup.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** A new element; `properties` are attributes, or with `on...` what is called. Children are elements or texts. */
export function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
        else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

/** Write a text, if it is another one: what does not change costs nothing. */
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute, or remove it if the value is null. */
export function setAttribute(node, name, value) {
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Tell a screen reader, without moving the focus; the same text again is told again, since it is another one for the reader. */
export function announce(text) {
    const node = byId("announcement");
    setText(node, node.textContent === text ? `${text}\u00a0` : text);
}
