// How far a job is: its state, and its tasks by what has become of them.

import { count } from "./amounts.js";
import { element, setAttribute, setText } from "./dom.js";
import { reasonOf } from "./reasons.js";
/** @import { ApplicationStatus } from "./messages" */

/**
 * The state of a job; here placeholders count as tasks, in the REST API they do not.
 * @param {Partial<ApplicationStatus>} entry
 */
export function jobState({ outcome, state, finishedTime, allocations = {} }) {
    if (finishedTime) return outcome ?? state ?? "";
    return Object.keys(allocations).length ? "Running" : "Pending";
}

/**
 * The tasks of a job: all, and those that are done, run, have failed, were cancelled, and the rest.
 * @param {Partial<ApplicationStatus>} entry
 */
export function tasksOf({ job, allocations = {} }) {
    const { tasks = 0, completed = 0, failed = 0, cancelled = 0 } = job ?? {};
    const left = tasks - completed - failed - cancelled;
    const running = Math.min(left, Object.keys(allocations).length);
    return { tasks, completed, running, failed, cancelled, rest: left - running };
}

/** In words: `12 of 200 done, 3 running, 2 failed`. */
export function progressOf(entry) {
    const { tasks, completed, ...others } = tasksOf(entry);
    const more = ["running", "failed", "cancelled"].filter((kind) => others[kind] > 0);
    return [`${count(completed)} of ${count(tasks)} done`, ...more.map((kind) => `${count(others[kind])} ${kind}`)].join(", ");
}

/** Draw the progress into a cell: a bar with a part for each kind, and the numbers. */
export function drawProgress(cell, entry) {
    if (cell.childElementCount === 0) {
        const parts = ["completed", "running", "failed"].map((kind) => element("span", { class: `part ${kind}` }));
        const bar = element("span", { class: "bar parts", "aria-hidden": "true" }, ...parts);
        cell.append(bar, element("span", { class: "amount" }));
    }
    const [bar, text] = cell.children;
    const found = tasksOf(entry);
    const widths = [found.completed, found.running, found.failed].map((part) => `${(100 * part) / Math.max(1, found.tasks)}%`);
    widths.forEach((width, index) => {
        if (bar.children[index].style.width !== width) bar.children[index].style.width = width;
    });
    setText(text, `${count(found.completed)} of ${count(found.tasks)}${found.failed ? `, ${count(found.failed)} failed` : ""}`);
    setAttribute(cell, "title", progressOf(entry));
}

/**
 * Why most of its asks wait, or why it has ended like that; "" while it runs and nothing waits.
 * @param {Partial<ApplicationStatus>} entry
 */
export function whyOf({ finishedTime, reason = "", pending = [] }) {
    if (finishedTime) return reason;
    const most = pending.reduce((best, group) => (best === null || group.count > best.count ? group : best), null);
    if (most === null) return "";
    const { words, more } = reasonOf(most);
    return more ? `${words}: ${more}` : words;
}
