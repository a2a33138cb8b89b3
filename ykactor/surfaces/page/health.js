// What is unhealthy: nodes and queues that the page knows, and the checks of the daemon.

import { count, percent } from "./amounts.js";
import { textOf } from "./session.js";
/** @import { Partition } from "./state.js" */

const CHECK_MS = 60_000;
/** Queues of a kind that are told. */
const QUEUES_MAX = 3;

export class Checks {
    #checkedAt = -Infinity;
    /** What the daemon says of itself. @type {string[]} */
    failed = [];

    /** Ask the daemon, if it is time. Limited readers have no answer. */
    async update() {
        if (performance.now() - this.#checkedAt < CHECK_MS) return;
        this.#checkedAt = performance.now();
        try {
            const { status, text } = await textOf("/ws/v1/scheduler/healthcheck");
            const checks = status === 200 || status === 503 ? (JSON.parse(text).HealthChecks ?? []) : [];
            this.failed = checks.filter((check) => !check.Succeeded).map((check) => check.DiagnosisMessage || check.Description);
        } catch {
            this.failed = [];  // the line at the top tells that the daemon does not answer
        }
    }
}

/**
 * Sentences, each with an address; the gravest first.
 * @param {Partition} partition
 * @returns {{ text: string, href: string, isGrave: boolean }[]}
 */
export function troubles({ address, state, partition }, failed) {
    const found = failed.map((text) => ({ text, href: address.to("overview"), isGrave: true }));
    const add = (text, href, isGrave = false) => text && found.push({ text, href, isGrave });
    const { resourceManager: manager, standbys, unconfirmed } = state.daemon;
    if (manager && !manager.connected) add(`The resource manager ${manager.rmID} is not connected.`, address.to("events"), true);
    const alone = `Fewer standbys than wanted have everything: ${standbys?.wanted} are wanted.`;
    if (standbys?.aloneSince) add(alone, address.to("overview"), true);
    if (unconfirmed) add(`The configuration of ${unconfirmed.who} awaits confirmation.`, address.to("configuration"));
    addNodes(partition, address, add);
    addQueues(partition, address, add);
    return found.sort((a, b) => b.isGrave - a.isGrave);
}

function addNodes(partition, address, add) {
    const [over, drained] = [[], []];
    const listed = (values) => address.to("nodes", { as: "list", ...values });
    for (const [name, node] of partition.nodes) {
        if (isOver(node)) over.push(name);
        if (!node.schedulable) drained.push(name);
    }
    add(nodes(over, "is over its capacity.", "are over their capacity."), listed({ sort: "-use" }), true);
    add(nodes(drained, "is drained.", "are drained."), listed({ find: "drained" }));
}

/** A sentence about one node or several; "" about none. */
function nodes(names, one, many) {
    if (names.length === 1) return `Node ${names[0]} ${one}`;
    return names.length ? `${count(names.length)} nodes ${many}` : "";
}

/** True if more of a node is in use than it has. */
export const isOver = ({ available }) => Object.values(available).some((amount) => amount < 0);

function addQueues(partition, address, add) {
    const [above, held] = [[], []];
    for (const [path, queue] of partition.queues) {
        if (queue.aboveMax) above.push([path, queue.aboveMax.reason]);
        if (queue.held) held.push(path);
    }
    const shown = (path) => address.to("queues", { show: `queue:${path}` });
    for (const [path, reason] of above.slice(0, QUEUES_MAX)) add(`Queue ${path} is ${reason}.`, shown(path));
    for (const path of held.slice(0, QUEUES_MAX)) add(`Queue ${path} is held.`, shown(path));
}

/** A node in words. */
export function wordsOf(name, node) {
    if (node === undefined) return "";
    const [drained, over] = [node.schedulable ? "" : "drained", isOver(node) ? "over its capacity" : ""];
    const marks = [drained, over, node.reservations.length ? "reserved" : ""];
    return [`${name}: ${percent(node.dominantShare)} in use`, ...marks.filter(Boolean)].join(", ");
}
