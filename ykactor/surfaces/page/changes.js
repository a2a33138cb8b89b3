// What an event changes in the state of its partition.

import { of } from "./amounts.js";
import { pathsOf } from "./paths.js";
/** @import { ApplicationStatus, EventRecord, NodeStatus, QueueStatus } from "./messages" */
/** @import { Partition } from "./state.js" */


/**
 * Changes a partition as an event says; returns the section in which something came or went, if it did.
 * @typedef {(partition: Partition, event: EventRecord) => "queues" | "applications" | "nodes" | void} Handler
 */

/** More nodes of tasks are not remembered: their applications should have been told long ago. */
const PLACED_MAX = 1000;

/** @type {Handler} */
export function change(partition, event) {
    const handler = HANDLERS.get(event.eventChangeDetail) ?? HANDLERS.get(`${event.type} ${event.eventChangeType}`);
    return handler?.(partition, event);
}

/** @param {Record<string, number>} amounts */
function add(amounts, resource, sign) {
    for (const [type, value] of Object.entries(resource ?? {})) amounts[type] = Math.max(0, of(amounts, type) + sign * value);
}

/**
 * Change `allocated` or `pending` of a queue and those above it.
 * @param {Partition} partition
 * @param {"allocated" | "pending"} field
 */
function charge(partition, path, field, resource, sign) {
    for (const above of pathsOf(path ?? "")) {
        const queue = partition.queues.get(above);
        if (queue !== undefined) add((queue[field] ??= {}), resource, sign);
    }
}

// ---- asks and tasks

/** @type {Handler} */
function onRequest(partition, event) {
    charge(partition, event.queueName, "pending", event.resource, 1);
}

/** @type {Handler} */
function onRequestEnded(partition, event) {
    charge(partition, event.queueName, "pending", event.resource, -1);
}

/** @type {Handler} */
function onAllocated(partition, event) {
    charge(partition, event.queueName, "allocated", event.resource, 1);
    charge(partition, event.queueName, "pending", event.resource, -1);
    const application = partition.applications.get(event.objectID);
    if (application === undefined) return;
    add((application.allocated ??= {}), event.resource, 1);
    (application.allocations ??= {})[event.referenceID] = partition.placed.get(event.referenceID) ?? "";
    partition.placed.delete(event.referenceID);
}

/** @type {Handler} */
function onReleased(partition, event) {
    charge(partition, event.queueName, "allocated", event.resource, -1);
    const application = partition.applications.get(event.objectID);
    if (application === undefined) return;
    add((application.allocated ??= {}), event.resource, -1);
    if (application.allocations) delete application.allocations[event.referenceID];
}

// ---- nodes

/**
 * A task is put on a node or taken off; one without a queue is foreign, and its amount is told as NODE_OCCUPIED.
 * @type {Handler}
 */
function onNodeUse(partition, event) {
    const node = partition.nodes.get(event.objectID);
    if (node === undefined) return;
    const isNew = event.eventChangeType === "ADD";
    if (isNew) {
        node.allocations.push(event.referenceID);
        if (partition.placed.size >= PLACED_MAX) partition.placed.clear();
        partition.placed.set(event.referenceID, event.objectID);
    } else {
        node.allocations = node.allocations.filter((key) => key !== event.referenceID);
    }
    if (event.queueName) {
        add(node.allocated, event.resource, isNew ? 1 : -1);
        add(node.available, event.resource, isNew ? -1 : 1);
    }
}

/** @type {Handler} */
function onNodeAdded(partition, event) {
    const capacity = event.resource ?? {};
    /** @type {Omit<NodeStatus, "capacity" | "available">} */
    const empty = { allocated: {}, occupied: {}, allocations: [], reservations: [], schedulable: true, dominantShare: 0 };
    partition.nodes.set(event.objectID, { ...empty, capacity: { ...capacity }, available: { ...capacity } });
    return "nodes";
}

/** @type {Handler} */
function onReservation(partition, event) {
    const node = partition.nodes.get(event.objectID);
    if (node === undefined) return;
    node.reservations = node.reservations.filter((key) => key !== event.referenceID);
    if (event.eventChangeType === "ADD") node.reservations.push(event.referenceID);
}

/**
 * Set a field of a node.
 * @type {<F extends keyof NodeStatus>(field: F, value: (event: EventRecord) => NodeStatus[F]) => Handler}
 */
const ofNode = (field, value) => (partition, event) => {
    const node = partition.nodes.get(event.objectID);
    if (node !== undefined) node[field] = value(event);
};

// ---- applications

/** @type {Handler} */
function onApplicationAdded(partition, event) {
    /** @type {Omit<ApplicationStatus, "state" | "queueName">} */
    const empty = { allocated: {}, allocations: {}, pending: [] };
    partition.applications.set(event.objectID, { ...empty, state: "New", queueName: event.queueName ?? "" });
    return "applications";
}

/** APP_RUNNING is told when an application is Running. @type {Handler} */
function onApplicationState(partition, event) {
    const application = partition.applications.get(event.objectID);
    const word = event.eventChangeDetail.slice("APP_".length);
    if (application !== undefined) application.state = word[0] + word.slice(1).toLowerCase();
}

/** An application comes into a queue: also one that was moved there. @type {Handler} */
function onQueueOfApplication(partition, event) {
    const application = partition.applications.get(event.referenceID);
    if (application !== undefined && event.eventChangeType === "ADD") application.queueName = event.objectID;
}

// ---- queues

/** @type {Handler} */
function onQueueAdded(partition, event) {
    /** @type {Partial<QueueStatus>} */
    const empty = { allocated: {}, pending: {}, max: null, guaranteed: null, state: "Active", isLeaf: true };
    if (!partition.queues.has(event.objectID)) partition.queues.set(event.objectID, empty);
    return "queues";
}

/** @type {(field: "max" | "guaranteed") => Handler} */
const ofQueue = (field) => (partition, event) => {
    const queue = partition.queues.get(event.objectID);
    if (queue !== undefined) queue[field] = event.resource ?? null;
};

/** @type {(section: "queues" | "applications" | "nodes") => Handler} */
const removed = (section) => (partition, event) => {
    partition[section].delete(event.objectID);
    return section;
};

/** By detail, or by type and change for events without one. @type {Map<string, Handler>} */
const HANDLERS = new Map([
    ["APP_REQUEST", onRequest],
    ["REQUEST_CANCEL", onRequestEnded],
    ["REQUEST_TIMEOUT", onRequestEnded],
    ["APP_ALLOC", onAllocated],
    ...["CANCEL", "PREEMPT", "TIMEOUT", "REPLACED", "NODEREMOVED"].map((word) => [`ALLOC_${word}`, onReleased]),
    ["NODE_ALLOC", onNodeUse],
    ["NODE_RESERVATION", onReservation],
    ["NODE_SCHEDULABLE", ofNode("schedulable", (event) => event.message === "schedulable: true")],
    ["NODE_CAPACITY", ofNode("capacity", (event) => event.resource ?? {})],
    ["NODE_OCCUPIED", ofNode("occupied", (event) => event.resource ?? {})],
    ["NODE_DECOMISSION", removed("nodes")],
    ["NODE ADD", onNodeAdded],
    ["APP_NEW", onApplicationAdded],
    ["APP_REJECT", (partition, event) => onApplicationState(partition, { ...event, eventChangeDetail: "APP_REJECTED" })],
    ...["ACCEPTED", "STARTING", "RUNNING", "COMPLETING", "COMPLETED", "FAILING", "FAILED", "RESUMING", "EXPIRED"].map(
        (word) => [`APP_${word}`, onApplicationState],
    ),
    ["APP REMOVE", removed("applications")],
    ["QUEUE_APP", onQueueOfApplication],
    ["QUEUE_DYNAMIC", (partition, event) => HANDLERS.get(`QUEUE ${event.eventChangeType}`)(partition, event)],
    ["QUEUE_MAX", ofQueue("max")],
    ["QUEUE_GUARANTEED", ofQueue("guaranteed")],
    ["QUEUE ADD", onQueueAdded],
    ["QUEUE REMOVE", removed("queues")],
]);
