// The address of the page: the view, and what is filtered, sorted, chosen and shown in it, so that it can be sent to a colleague.
//
// It is `#VIEW?NAME=VALUE&...`. A link to another view keeps the partition and the type of resource only.

const KEPT = ["partition", "type"];

export class Address {
    #values = new URLSearchParams();

    /**
     * @param {string[]} views the names of all views; an address that names none of them shows the first one.
     * @param {() => void} onChange called when the address has changed, whoever has changed it.
     */
    constructor(views, onChange) {
        this.views = views;
        this.view = views[0];
        this.onChange = onChange;
        addEventListener("hashchange", () => this.follow());
        this.#read();
    }

    /** Show what the address of the browser says. */
    follow() {
        this.#read();
        this.onChange();
    }

    #read() {
        const text = location.hash.slice(1);
        const end = text.includes("?") ? text.indexOf("?") : text.length;
        const view = text.slice(0, end);
        this.view = this.views.includes(view) ? view : this.views[0];
        this.#values = new URLSearchParams(text.slice(end + 1));
    }

    /** A value; "" if there is none. */
    get(name) {
        return this.#values.get(name) ?? "";
    }

    /** The text that is looked for, in lower case; "" if there is none. */
    get find() {
        return this.get("find").trim().toLowerCase();
    }

    /** The address of this view with other values; "" leaves one out. */
    href(values) {
        const found = new URLSearchParams(this.#values);
        for (const [name, value] of Object.entries(values)) value ? found.set(name, value) : found.delete(name);
        return written(this.view, found);
    }

    /** The address of a view with these values. */
    to(view, values = {}) {
        const kept = KEPT.filter((name) => this.#values.has(name)).map((name) => [name, this.get(name)]);
        return written(view, new URLSearchParams([...kept, ...Object.entries(values)]));
    }

    /** Change values; with `isPassing`, as while somebody types, the browser does not go back to what was before. */
    set(values, isPassing = false) {
        this.go(this.href(values), isPassing);
    }

    /** Go to an address of the page, without what browsers do to go to a place in a document: they would move the focus. */
    go(wanted, isPassing = false) {
        if (wanted === location.hash) return;
        history[isPassing ? "replaceState" : "pushState"](null, "", wanted);
        this.follow();
    }
}

function written(view, values) {
    const query = values.toString();
    return query ? `#${view}?${query}` : `#${view}`;
}
