// What is told of a queue, an application, a node or an event: facts with names, and lines below them.

import { age, ageSince, amounts, priority, timeOfDay } from "./amounts.js";
import { attemptRow } from "./attempts.js";
import { jobState, progressOf } from "./progress.js";
import { usesOf } from "./users.js";
/** @import { ApplicationStatus, EventRecord, NodeStatus, PendingStatus } from "./messages" */
/** @import { Held, Preemption, QueueStatus, RecordStatus } from "./messages" */
/** @import { Partition } from "./state.js" */

/** Lines of a list, and keys of asks in one of them. */
const [LINES_MAX, KEYS_MAX] = [100, 10];

/** By kind: where it is in a partition, and what tells of it. */
const SECTIONS = {
    queue: ["queues", ofQueue],
    job: ["applications", ofJob],
    application: ["applications", ofApplication],
    node: ["nodes", ofNode],
};

/** True if something of this kind can be shown. */
export const isKind = (kind) => Object.hasOwn(SECTIONS, kind) || kind === "user" || kind === "event";

/** A line for each item; of many only the first ones are told, and how many there are. */
function listed(items, tell) {
    const more = items.length - LINES_MAX;
    return [...items.slice(0, LINES_MAX).map(tell), ...(more > 0 ? [`and ${more} more`] : [])];
}

const GONE = { facts: [["State", "It is not there, or no longer."]], lines: [] };

/**
 * `{title, facts, lines}` of an object of the partition that is shown; an event is named by its number. A job has `attempts` too.
 */
export function factsOf({ partition, log, none, attempts }, kind, key) {
    if (kind === "event") return ofEvent(log.events.findLast(({ sequence }) => String(sequence) === key), key);
    if (kind === "user") return { title: key, ...ofUser(usesOf(partition).filter(({ whose }) => whose === key), key, partition) };
    const [section, tell] = SECTIONS[kind];
    const found = partition[section].get(key);
    const told = found === undefined ? none(GONE) || { facts: [], lines: [] } : tell(found, key, partition);
    const rows = kind === "job" ? attempts.of(partition.name, key).slice(0, LINES_MAX).map(attemptRow) : [];
    return { title: `${kind} ${key}`, attempts: rows, ...told };
}

/** What a user or group uses in each queue, and its applications. */
function ofUser(uses, whose, { applications }) {
    const useOf = ({ allocated, max }) => (max ? `${amounts(allocated)} of ${amounts(max)}` : amounts(allocated));
    const facts = uses.map((use) => [use.queue, useOf(use)]);
    const own = [...applications].filter(([, { user }]) => `user ${user}` === whose);
    return { facts, lines: listed(own, ([name, { state, queueName }]) => `${name} in ${queueName}: ${state}`) };
}

/** @type {(shown: { held?: Held }) => string} */
const holdOf = ({ held }) => (held ? `by ${held.by} for ${ageSince(held.since)}` : "");
const ofMost = (count, most) => (most ? `${count} of ${most}` : count);

/**
 * @param {Partial<QueueStatus>} queue
 * @param {string} path
 * @param {Partition} partition
 */
function ofQueue(queue, path, partition) {
    const policy = queue.priorityPolicy ?? "default";
    const facts = [
        ["State", queue.state],
        ["Held", holdOf(queue)],
        ["Held with queue", queue.heldWith],
        ["Used", amounts(queue.allocated)],
        ["Guaranteed", amounts(queue.guaranteed, "none")],
        ["Maximum", amounts(queue.max, "none")],
        ["Above", queue.aboveMax?.reason],
        ["Headroom", amounts(queue.headroom, "unlimited")],
        ["Pending", amounts(queue.pending)],
        ["Share", queue.share === undefined ? "" : queue.share.toFixed(3)],
        ["Queue priority", `${priority(queue.priority)} (offset ${queue.priorityOffset ?? 0}, ${policy})`],
        ["Running applications", ofMost(queue.runningApplications, queue.maxApplications)],
        ["Order of applications", queue.isLeaf ? queue.sortPolicy : ""],
        ["Preemption", queue.preemptionPolicy],
    ];
    const waiting = [];
    for (const [name, application] of partition.applications)
        if (application.queueName === path || application.queueName.startsWith(`${path}.`))
            for (const group of application.pending ?? []) waiting.push([name, group]);
    return { facts, lines: listed(waiting, ([name, group]) => `${name}: ${waits(group)}`) };
}

/**
 * Why asks wait, and when they may try to preempt.
 * @param {PendingStatus} group
 */
function waits(group) {
    const left = group.nextAttempt === undefined ? 0 : group.nextAttempt / 1e9 - Date.now() / 1000;
    const next = group.nextAttempt === undefined ? "" : `; may preempt ${left > 0 ? `in ${age(left)}` : "now"}`;
    const named = group.allocationKeys.slice(0, KEYS_MAX);
    const keys = named.join(", ") + (group.count > named.length ? ` and ${group.count - named.length} more` : "");
    return `${group.count} x ${amounts(group.resource)} wait (${keys}): ${group.reason}${next}`;
}

/** @param {ApplicationStatus} application */
function ofJob(application) {
    const [, ...facts] = ofApplication(application).facts;
    const own = [["Name", application.job?.name], ["State", jobState(application)], ["Tasks", progressOf(application)]];
    return { facts: [...own, ...facts], lines: listed(application.pending ?? [], waits) };
}

/** @param {ApplicationStatus} application */
function ofApplication(application) {
    const facts = [
        ["State", application.outcome ?? application.state],
        ["Held", holdOf(application)],
        ["Held with queue", application.heldWith],
        ["Queue", application.queueName],
        ["User", application.user],
        ["Groups", (application.groups ?? []).join(", ")],
        ["Submitted", application.submissionTime ? `${ageSince(application.submissionTime)} ago` : ""],
        ["Ended", application.finishedTime ? `${ageSince(application.finishedTime)} ago` : ""],
        ["Why", application.reason],
        ["Uses", amounts(application.allocated)],
        ["Priority", priority(application.effectivePriority)],
    ];
    const tasks = listed(Object.entries(application.allocations ?? {}), ([key, node]) => `${key} runs on ${node || "a node"}`);
    const replacing = listed(
        application.replacing ?? [],
        ({ allocationKey, placeholder, nodeID }) => `${allocationKey} replaces ${placeholder} on ${nodeID}`,
    );
    const ended = listed((application.records ?? []).toReversed(), ends);
    return { facts, lines: [...listed(application.pending ?? [], waits), ...replacing, ...tasks, ...ended] };
}

/**
 * How a task has ended.
 * @param {RecordStatus} record
 */
function ends(record) {
    const exit = record.signal ?? (record.exitCode === undefined ? "" : `exit code ${record.exitCode}`);
    const isTimed = record.startTime !== undefined && record.finishedTime !== undefined;
    const parts = [
        `${record.allocationKey} is ${record.state}`,
        exit,
        isTimed ? `began ${ageSince(record.startTime)} ago` : "",
        isTimed ? `ran ${age((record.finishedTime - record.startTime) / 1e9)}` : "",
        record.peakMemory === undefined ? "" : `used up to ${amounts({ memory: record.peakMemory })}`,
        record.nodeID ? `on ${record.nodeID}` : "",
    ];
    return parts.filter((part) => part).join(", ");
}

/** @param {NodeStatus} node */
function ofNode(node) {
    const facts = [
        ["State", node.schedulable ? "schedulable" : "draining"],
        ["Used", `${Math.round(100 * node.dominantShare)} %: ${amounts(node.allocated)}`],
        ["Used by others", Object.keys(node.occupied ?? {}).length ? amounts(node.occupied) : ""],
        ["Free", amounts(node.available)],
        ["Capacity", amounts(node.capacity)],
        ["Reserved for", node.reservations.join(", ")],
        ["Tasks", node.allocations.length],
    ];
    return { facts, lines: listed(node.allocations, (key) => key) };
}

/** @param {EventRecord | undefined} event */
function ofEvent(event, key) {
    if (event === undefined) return { title: `event ${key}`, facts: [["State", "It is not among the last events."]], lines: [] };
    const preemption = event.preemption;
    const facts = [
        ["Number", event.sequence],
        ["Time", event.timestampNano ? timeOfDay(event.timestampNano) : ""],
        ["Change", `${event.type} ${event.eventChangeType ?? ""} ${event.eventChangeDetail ?? ""}`],
        ["Reference", event.referenceID],
        ["Queue", event.queueName],
        ["Resource", event.resource ? amounts(event.resource) : ""],
        ["Why", preemption?.why],
        ["Node", preemption?.nodeID],
        ["Work lost", preemption ? `${amounts(preemption.workLost)} × s` : ""],
        ["Message", preemption ? "" : event.message],
    ];
    return { title: event.objectID, facts, lines: preemption ? ofPreemption(preemption) : [] };
}

/** @param {Preemption} preemption */
function ofPreemption(preemption) {
    const preempted = (task) => `preempts ${task.allocationKey} of ${task.applicationID} in ${task.queueName}`;
    const after = (path) => preemption.sharesAfter[path].toFixed(2);
    const shares = Object.entries(preemption.sharesBefore ?? {}).map(
        ([path, before]) => `${path} uses ${before.toFixed(2)} of its guarantee before, ${after(path)} after`,
    );
    const rejected = listed(preemption.rejected ?? [], (other) => `not ${other.nodeID}: ${other.reason}`);
    return [...listed(preemption.victims, preempted), ...shares, ...rejected];
}
