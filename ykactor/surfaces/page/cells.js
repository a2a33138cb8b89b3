// Cells that several tables have, and what they say.

import { timeOfDay } from "./amounts.js";
import { setAttribute, setText } from "./dom.js";
/** @import { ApplicationStatus, EventRecord, QueueStatus } from "./messages" */

/** A long text; all of it is seen when one points at it. */
export function drawLong(cell, text) {
    setText(cell, text);
    setAttribute(cell, "title", text);
}

const timeOf = (/** @type {EventRecord} */ event) => (event.timestampNano ? timeOfDay(event.timestampNano) : "");

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

/** Mark a cell that is in trouble. */
export const drawTrouble = (cell, isTrouble) => setAttribute(cell, "data-trouble", isTrouble ? "" : null);
