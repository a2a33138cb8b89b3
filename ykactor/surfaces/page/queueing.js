// What the queues above make of an ask or application, as the verbs of the command line show it.

import { pathsOf } from "./paths.js";

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;

/** The priority that root sees: each queue adds its offset, and a fence shows its offset alone; none if nothing is pending. */
export function effectivePriority(own, path, queues) {
    if (own === undefined || own === INT32_MIN) return own;
    const lineage = pathsOf(path).filter((above) => queues.has(above));
    return lineage.reduce((priority, above) => {
        const { priorityOffset = 0, priorityPolicy } = queues.get(above);
        const sum = priorityPolicy === "fence" ? priorityOffset : priority + priorityOffset;
        return Math.max(INT32_MIN, Math.min(INT32_MAX, sum));
    }, own);
}

/** The queue itself, or the nearest one above it, that is held by an operator. */
export const heldQueue = (path, queues) => pathsOf(path).find((above) => queues.get(above)?.held !== undefined);

/** The queue with which an application is held; none of one that has ended. */
export const heldWith = (application, queues) =>
    application.allocated === undefined ? undefined : heldQueue(application.queueName, queues);
