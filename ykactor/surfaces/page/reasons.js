// The reasons for which asks wait, in words, and the asks of a partition folded by them.

import { amount } from "./amounts.js";
/** @import { ApplicationStatus, PendingStatus } from "./messages" */
/** @import { Partition } from "./state.js" */

/** By reason code (AP-150). */
export const REASONS = {
    HELD: "Held by an operator",
    FAILING: "The application fails",
    BACKOFF: "Back-off of the application",
    ORDER: "Behind other applications of the queue",
    PLACEHOLDER: "Waits for a placeholder",
    MAX_APPLICATIONS: "Maximum of running applications",
    LIMIT: "Limit of a user or group",
    QUOTA: "Maximum of a queue",
    NO_NODE: "There is no node",
    UNKNOWN_NODE: "The required node is not there",
    NOT_SELECTED: "No node has the required attributes",
    LEFT_OUT: "All nodes are left out",
    TOO_LARGE: "Larger than any node",
    DRAINED: "All nodes that fit are drained",
    NODES: "No room on a node",
    PREDICATE: "Refused by the resource manager",
    RESERVED: "Waits for room on its reserved node",
    PREEMPTING: "Waits for preempted tasks to end",
    NEXT: "Not tried yet",
};

/**
 * The reason of a group in words, and its place: a queue, a limit, a node.
 * @param {PendingStatus} group
 */
export function reasonOf({ code, place = {} }) {
    const { queueName, whose, resource, used, max } = place;
    const isKnown = resource !== undefined && used !== undefined && used !== null && max !== undefined && max !== null;
    const amounts = isKnown ? `${resource} ${amount(resource, used)} of ${amount(resource, max)}` : (resource ?? "");
    const more = [whose, queueName, nodeOf(code, place), amounts].filter(Boolean).join(" · ");
    return { words: REASONS[code] ?? code, more };
}

/** Reserved nodes are as many as the asks that wait for them: those are one reason. */
const nodeOf = (code, { nodeId }) => (code === "RESERVED" ? undefined : nodeId);

/**
 * The reasons for which asks of a partition wait, each with its groups of asks.
 * @param {Partition} partition
 * @param {(found: { application: string, entry: ApplicationStatus, group: PendingStatus, code: string }) => boolean} isWanted
 */
export function reasonsOf(partition, isWanted = () => true) {
    const reasons = new Map();
    for (const [application, entry] of partition.applications)
        for (const group of entry.pending ?? []) {
            const { code, place = {} } = group;
            if (!isWanted({ application, entry, group, code })) continue;
            const key = [code, place.queueName, place.whose, place.resource, nodeOf(code, place)].join("|");
            const none = { asks: 0, applications: 0, since: 0, groups: [] };
            if (!reasons.has(key)) reasons.set(key, { key, code, ...reasonOf(group), ...none });
            add(reasons.get(key), application, group);
        }
    return [...reasons.values()];
}

function add(reason, application, group) {
    reason.asks += group.count;
    if (reason.groups.at(-1)?.application !== application) reason.applications += 1;
    if (group.oldestTime && (!reason.since || group.oldestTime < reason.since)) reason.since = group.oldestTime;
    reason.groups.push({ key: `${application}/${group.allocationKeys[0]}/${reason.key}`, application, group });
}
