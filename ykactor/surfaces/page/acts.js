// What an operator may do to what is shown (SE-71): at once where it can be undone, else after a question.

import { announce } from "./dom.js";
import { act } from "./operator.js";
import { ask } from "./question.js";

/** Tasks that a question offers. */
const CHOICES_MAX = 200;
const PARTITION_ATTRIBUTE = "si/node-partition";

/** The acts for a shown object: `{label, run}`. Without the role of an operator there are none. */
export function actsOf(app, kind, key) {
    if (!app.session?.isOperator) return [];
    const { partition } = app;
    if (kind === "node" && partition.nodes.has(key)) return nodeActs(app, key, partition.nodes.get(key));
    if (kind === "queue" && partition.queues.has(key)) return queueActs(app, key, partition.queues.get(key));
    const application = kind === "application" || kind === "job" ? partition.applications.get(key) : undefined;
    return application?.pending === undefined ? [] : applicationActs(app, key, application);
}

/** One of two acts that undo each other: the one that changes what is. */
function either(app, isSo, begin, end) {
    const run = (act, undo) => () => carryOut(app, act.request, act.done, { undo: undo.request, undone: undo.done });
    return isSo ? { label: end.label, run: run(end, begin) } : { label: begin.label, run: run(begin, end) };
}

function nodeActs(app, name, node) {
    const attributes = { [PARTITION_ATTRIBUTE]: app.partition.name };
    const request = (action) => ({ type: "NodeRequest", nodes: [{ nodeID: name, action, attributes }] });
    const drain = { label: "Drain", request: request("DRAIN_NODE"), done: `${name} is drained: what runs there goes on` };
    const undrain = { label: "Undrain", request: request("DRAIN_TO_SCHEDULABLE"), done: `${name} is schedulable` };
    return [either(app, !node.schedulable, drain, undrain)];
}

function queueActs(app, path, queue) {
    const request = (held) => ({ type: "HoldQueue", queueName: path, partitionName: app.partition.name, held });
    const hold = { label: "Hold", request: request(true), done: `${path} is held: it gets nothing new` };
    const release = { label: "Release", request: request(false), done: `${path} is released` };
    return [either(app, queue.held !== undefined, hold, release)];
}

function applicationActs(app, name, application) {
    const fields = { applicationID: name, partitionName: app.partition.name };
    const request = (held) => ({ type: "HoldApplication", ...fields, held });
    const hold = { label: "Hold", request: request(true), done: `${name} is held: it gets nothing new` };
    const release = { label: "Release", request: request(false), done: `${name} is released` };
    const acts = [either(app, application.held !== undefined, hold, release)];
    acts.push({ label: "Move…", run: () => move(app, name, fields) });
    if (application.pending.length > 0)
        acts.push({ label: "Priority…", run: () => setPriority(app, name, fields, application) });
    if (tasksOf(application).length > 0)
        acts.push({ label: "Cancel a task…", run: () => cancelTask(app, name, fields, application) });
    return [...acts, { label: "Cancel…", run: () => cancel(app, name, fields) }];
}

async function move(app, name, fields) {
    const from = app.partition.applications.get(name)?.queueName;
    const leaves = [...app.partition.queues].filter(([path, queue]) => queue.isLeaf && path !== from);
    const input = { label: "Queue", choices: leaves.map(([path]) => path).sort(), isChoice: true };
    const words = { title: `Move ${name}?`, text: `It leaves ${from} with all that it has.`, confirm: "Move", keep: "Stay" };
    const queueName = await ask(words, input);
    if (queueName === null) return;
    const request = (path) => ({ type: "MoveApplication", ...fields, queueName: path });
    const back = { undo: request(from), undone: `${name} is back in ${from}` };
    await carryOut(app, request(queueName), `${name} is in ${queueName}`, back);
}

async function setPriority(app, name, fields, application) {
    const before = new Set(application.pending.map((group) => group.priority));
    const input = { label: "Priority", value: String([...before][0]), type: "number" };
    const text = "All its pending asks get it; higher is more important.";
    const words = { title: `Set the priority of ${name}?`, text, confirm: "Set", keep: "Keep" };
    const found = await ask(words, input);
    if (found === null) return;
    const request = (priority) => ({ type: "SetPriority", ...fields, priority });
    const back = before.size === 1 ? { undo: request([...before][0]), undone: `${name} has its priority of before` } : {};
    await carryOut(app, request(Number(found)), `The pending asks of ${name} have priority ${found}`, back);
}

/** The keys of its asks and tasks. */
function tasksOf({ pending, allocations = {} }) {
    return [...pending.flatMap((group) => group.allocationKeys), ...Object.keys(allocations)];
}

async function cancelTask(app, name, fields, application) {
    const choices = tasksOf(application);
    const text = "A pending ask is removed; a task runs until the resource manager has confirmed its release. Neither is undone.";
    const input = { label: "Task", value: choices[0], choices: choices.slice(0, CHOICES_MAX) };
    const words = { title: `Cancel a task of ${name}?`, text, confirm: "Cancel the task", keep: "Keep" };
    const allocationKey = await ask(words, input);
    if (allocationKey === null) return;
    const request = { type: "CancelAllocation", ...fields, allocationKey };
    await carryOut(app, request, `${allocationKey} is cancelled`, { begun: `${allocationKey} is being released` });
}

async function cancel(app, name, fields) {
    const text = "Its tasks end and its pending asks are removed. This cannot be undone.";
    const answer = await ask({ title: `Cancel ${name}?`, text, confirm: `Cancel ${name}`, keep: "Keep" });
    if (answer === null) return;
    await carryOut(app, { type: "TerminateApplication", ...fields }, `${name} is cancelled`, { begun: `${name} is ending` });
}

/**
 * Send a request, and tell what came of it.
 *
 * @param {{ begun?: string, undo?: object, undone?: string }} more `begun`: told while the resource manager has to confirm a
 *     release; `undo`: the request that undoes it, and what is told then.
 */
async function carryOut(app, request, done, { begun = done, undo, undone } = {}) {
    try {
        const ack = await act(app.session, request);
        app.feed.expect(ack);
        const told = ack.releasing ? begun : done;
        announce(told);
        app.notice(`${told}.`, undo && { label: "Undo", run: () => carryOut(app, undo, undone) });
    } catch (error) {
        app.notice(`Refused: ${error.message}`, null, true);
    }
}
