// The dialog that asks before something is done.

import { byId, element } from "./dom.js";

/**
 * Ask; returns what was typed or chosen ("" if nothing is to be), or null if the answer is no.
 *
 * `words`: `{title, text, confirm, keep}`, the last two on the buttons.
 * `input`: `{label, value, choices, isChoice, type}` of a field that has to be filled in; with `isChoice` only one of the choices
 *     may be. Without it there is none.
 */
export function ask({ title, text, confirm, keep }, input = null) {
    const dialog = byId("question");
    dialog.querySelector("h2").textContent = title;
    dialog.querySelector("p").textContent = text;
    dialog.querySelector("[value=confirm]").textContent = confirm;
    dialog.querySelector("[value=cancel]").textContent = keep;
    const field = prepared(dialog.querySelector("label"), input);
    dialog.showModal();
    (field ?? dialog.querySelector("[value=cancel]")).focus();
    return new Promise((resolve) => {
        // The event "close" comes later, and would be taken for the answer to the next question.
        const answer = (isYes) => resolve(isYes ? (field?.value.trim() ?? "") : null);
        dialog.firstElementChild.onsubmit = (event) => answer(event.submitter.value === "confirm");
        dialog.oncancel = () => resolve(null);
    });
}

/** The field of the dialog; null without one. */
function prepared(label, input) {
    label.hidden = input === null;
    label.replaceChildren();
    if (input === null) return null;
    const options = (input.choices ?? []).map((value) => element("option", { value }, input.isChoice ? value : ""));
    const choices = element(input.isChoice ? "select" : "datalist", { id: "choices" }, ...options);
    const typed = { list: "choices", autocomplete: "off", type: input.type ?? "text" };
    const field = input.isChoice ? choices : element("input", typed);
    field.required = true;
    label.replaceChildren(input.label, field, ...(input.isChoice ? [] : [choices]));
    if (!input.isChoice) field.value = input.value ?? "";
    return field;
}
