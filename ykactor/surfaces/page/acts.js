// What an operator may do to what is chosen: the question, and the request (SE-71).

import { announce } from "./dom.js";
import { act } from "./operator.js";
import { ask } from "./question.js";

/** Queues and asks that a field offers. */
const CHOICES_MAX = 200;
const PARTITION_ATTRIBUTE = "si/node-partition";

/** The acts for a chosen object: `{label, run}`. Without the role of an operator there are none. */
export function actsOf(app, kind, key) {
    if (!app.session?.isOperator) return [];
    if (kind === "node") return nodeActs(app, key);
    return kind === "application" ? applicationActs(app, key) : [];
}

function nodeActs(app, name) {
    const node = app.partition.nodes.get(name);
    if (node === undefined) return [];
    const attributes = { [PARTITION_ATTRIBUTE]: app.partition.name };
    const request = (action) => ({ type: "NodeRequest", nodes: [{ nodeID: name, action, attributes }] });
    const drain = async () => {
        const text = "What runs there goes on, and nothing new is placed on it.";
        if ((await ask(`Drain ${name}?`, text)) !== null) await carryOut(app, request("DRAIN_NODE"), `${name} drains`);
    };
    const undrain = async () => {
        const text = "New tasks may be placed on it again.";
        const answer = await ask(`End the draining of ${name}?`, text);
        if (answer !== null) await carryOut(app, request("DRAIN_TO_SCHEDULABLE"), `${name} is schedulable`);
    };
    return [node.schedulable ? { label: "Drain", run: drain } : { label: "Undrain", run: undrain }];
}

function applicationActs(app, name) {
    const application = app.partition.applications.get(name);
    if (application === undefined || application.pending === undefined) return [];
    const fields = { applicationID: name, partitionName: app.partition.name };
    const end = async () => {
        const text = "It fails, with all that it has. This cannot be undone.";
        const answer = await ask(`Cancel ${name}?`, text);
        const request = { type: "TerminateApplication", ...fields };
        if (answer !== null) await carryOut(app, request, `${name} is cancelled`, `${name} is ending`);
    };
    const endAsk = async () => {
        const pending = application.pending.flatMap((group) => group.allocationKeys);
        const choices = [...pending, ...Object.keys(application.allocations ?? {})];
        const text = "A pending ask is removed. A task runs until the resource manager has confirmed its release.";
        const input = { label: "Ask or task", value: choices[0] ?? "", choices: choices.slice(0, CHOICES_MAX) };
        const allocationKey = await ask(`Cancel one of ${name}?`, text, input);
        if (allocationKey === null) return;
        const request = { type: "CancelAllocation", ...fields, allocationKey };
        await carryOut(app, request, `${allocationKey} is cancelled`, `${allocationKey} is being released`);
    };
    const move = async () => {
        const leaves = [...app.partition.queues].filter(([, queue]) => queue.isLeaf).map(([path]) => path);
        const input = { label: "To the leaf", value: "", choices: leaves.slice(0, CHOICES_MAX) };
        const queueName = await ask(`Move ${name}?`, "It moves with all that it has.", input);
        if (queueName === null) return;
        await carryOut(app, { type: "MoveApplication", ...fields, queueName }, `${name} moved to ${queueName}`);
    };
    return [
        { label: "Move…", run: move },
        { label: "Cancel an ask…", run: endAsk },
        { label: "Cancel", run: end },
    ];
}

/** Send a request, and tell what came of it: `begun` while the resource manager has to confirm a release. */
async function carryOut(app, request, done, begun = done) {
    try {
        const ack = await act(app.session, request);
        app.feed.expect(ack);
        announce(ack.releasing ? begun : done);
        app.notice("");
    } catch (error) {
        app.notice(`Refused: ${error.message}`);
    }
}
