// The dialog that asks before something is done.

import { byId, element } from "./dom.js";

/**
 * Ask; returns what was typed ("" if nothing is to be typed), or null if the answer is no.
 *
 * `input`: `{label, value, choices}` of a field that has to be filled in; without it there is none.
 */
export function ask(title, text, input = null) {
    const dialog = byId("question");
    const [label, field] = [dialog.querySelector("label"), dialog.querySelector("input")];
    dialog.querySelector("h2").textContent = title;
    dialog.querySelector("p").textContent = text;
    label.hidden = input === null;
    field.required = input !== null;
    label.firstElementChild.textContent = input?.label ?? "";
    field.value = input?.value ?? "";
    byId("choices").replaceChildren(...(input?.choices ?? []).map((value) => element("option", { value })));
    dialog.showModal();
    (input === null ? dialog.querySelector("[value=cancel]") : field).focus();
    return new Promise((resolve) => {
        // The event "close" comes later, and would be taken for the answer to the next question.
        dialog.firstElementChild.onsubmit = (event) => resolve(event.submitter.value === "confirm" ? field.value.trim() : null);
        dialog.oncancel = () => resolve(null);
    });
}
