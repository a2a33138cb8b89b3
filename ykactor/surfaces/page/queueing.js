// What is held with a queue above it, as the verbs of the command line show it.

import { pathsOf } from "./paths.js";

/** The queue itself, or the nearest one above it, that is held by an operator. */
export const heldQueue = (path, queues) => pathsOf(path).find((above) => queues.get(above)?.held !== undefined);

/** The queue with which an application is held; none of one that has ended. */
export const heldWith = (application, queues) =>
    application.allocated === undefined ? undefined : heldQueue(application.queueName, queues);
