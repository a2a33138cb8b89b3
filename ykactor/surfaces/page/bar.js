// The use of a queue as a bar: what is used of its maximum, and where its guarantee is.

import { amount, of, percent } from "./amounts.js";
import { element, setText } from "./dom.js";
/** @import { QueueStatus } from "./messages" */

/**
 * Draw a queue into a cell, for one type of resource. Without a maximum the whole bar is the capacity of the partition, or the
 * guarantee where the capacity is not shown (null); without one too it is empty, as nobody knows how much of what is used.
 * @param {Partial<QueueStatus>} queue
 */
export function drawUsage(cell, queue, type, capacity) {
    if (cell.childElementCount === 0) {
        const bar = newBar();
        bar.append(element("span", { class: "tick" }));
        cell.append(bar, element("span", { class: "amount" }));
    }
    const [bar, text] = cell.children;
    const [used, max, guaranteed] = [of(queue.allocated, type), limit(queue.max, type), limit(queue.guaranteed, type)];
    const whole = max ?? (capacity === null ? (guaranteed ?? 0) : Math.max(capacity, guaranteed ?? 0, used));
    bar.children[0].style.transform = `scaleX(${share(used, whole)})`;
    bar.children[0].className = `fill ${levelOf(used, max)}`;
    bar.children[1].hidden = guaranteed === null;
    bar.children[1].style.left = `${100 * share(guaranteed ?? 0, whole)}%`;
    const parts = [amount(type, used), max === null ? "" : ` of ${amount(type, max)}`];
    if (guaranteed !== null) parts.push(`, guaranteed ${amount(type, guaranteed)}`);
    setText(text, parts.join(""));
}

/** The limit of a type; null without one. */
const limit = (amounts, type) => (amounts && Object.hasOwn(amounts, type) ? amounts[type] : null);

const share = (part, whole) => (whole > 0 ? Math.min(1, part / whole) : 0);

/** A full queue is well used; what is above its maximum is trouble. */
function levelOf(used, max) {
    return max !== null && used > max ? "above" : "";
}

/** An empty bar. */
export const newBar = () => element("span", { class: "bar", "aria-hidden": "true" }, element("span", { class: "fill" }));

/** Draw a share into a cell, with its percent. */
export function drawShare(cell, value) {
    if (cell.childElementCount === 0) cell.append(newBar(), element("span"));
    const [bar, text] = cell.children;
    bar.firstElementChild.style.transform = `scaleX(${Math.min(1, value)})`;
    bar.firstElementChild.className = value > 1 ? "fill above" : "fill";
    setText(text, percent(value));
}
