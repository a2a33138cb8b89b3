// Cells that several tables have, and what they say.

import { age, ageSince, timeOfDay } from "./amounts.js";
import { element, setAttribute, setText } from "./dom.js";
/** @import { ApplicationStatus, EventRecord, QueueStatus } from "./messages" */

/** A long text; all of it is seen when one points at it. */
export function drawLong(cell, text) {
    setText(cell, text);
    setAttribute(cell, "title", text);
}

/**
 * Draw the name of an item of a tree, with a mark that folds it, and more about it.
 * @param {{ level: number, isOpen: boolean | null, name: string, more: string, title?: string }} item `isOpen` as of a grid.
 */
export function drawFolded(cell, { level, isOpen, name, more, title = null }) {
    if (cell.childElementCount === 0)
        cell.append(element("span", { class: "fold", "aria-hidden": "true" }), element("span"), " ", element("em"));
    cell.style.paddingLeft = `${level * 1.1}rem`;
    [isOpen === null ? "" : isOpen ? "▾" : "▸", name, more].forEach((text, index) => setText(cell.children[index], text));
    setAttribute(cell, "title", title);
}

const timeOf = (/** @type {EventRecord} */ event) => (event.timestampNano ? timeOfDay(event.timestampNano) : "");

/** What a row of an event leads to. */
export const targetOfEvent = ({ event }) => ({ show: `event:${event.sequence}` });

/** The time of an event. */
export const timeColumn = {
    key: "time", title: "Time", kind: "number",
    value: ({ event }) => event.timestampNano ?? 0, fill: (cell, { event }) => setText(cell, timeOf(event)),
};

/**
 * Whether a queue or an application is held, itself or with a queue above it.
 * @type {(entry: Pick<QueueStatus | ApplicationStatus, "held" | "heldWith">) => boolean}
 */
export const isHeld = (entry) => entry.held !== undefined || entry.heldWith !== undefined;

/** A column of texts; `kind` as of a grid. */
export const textColumn = (key, title, textIn, kind) => ({
    key, title, kind, value: textIn, fill: (cell, item) => setText(cell, textIn(item)),
});

/**
 * For how long an application has been there, or was.
 * @type {(entry: (item: { key: string }) => Partial<ApplicationStatus>) => object}
 */
export const ageColumn = (entry) => ({
    key: "age", title: "Age", kind: "number", value: (item) => -(entry(item).submissionTime ?? 0),
    fill: (cell, item) => setText(cell, ageOf(entry(item))),
});

function ageOf(/** @type {Partial<ApplicationStatus>} */ { submissionTime, finishedTime }) {
    if (!submissionTime) return "";
    return finishedTime ? age((finishedTime - submissionTime) / 1e9) : ageSince(submissionTime);
}

/** True if an application in this state, or with this outcome, is in trouble. */
export const stateIsTrouble = (state) => /Fail|Reject|Expired/.test(state);

/** Mark a cell that is in trouble. */
export const drawTrouble = (cell, isTrouble) => setAttribute(cell, "data-trouble", isTrouble ? "" : null);
