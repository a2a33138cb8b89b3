// The preemptions among the last events, with what allows each.

import { amount, inOrder } from "./amounts.js";
import { drawLong, targetOfEvent, timeColumn } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { EventRecord } from "./messages" */

const VICTIMS_MAX = 3;

/** What happened, as a sentence: who preempts whose tasks, and where. */
function storyOf(/** @type {EventRecord} */ event) {
    const { preemption, objectID, queueName } = event;
    if (!preemption) return `Queue ${objectID}`;
    const { victims, nodeID } = preemption;
    const owners = [...new Set(victims.map((victim) => victim.applicationID))];
    const more = owners.length > VICTIMS_MAX ? ` and ${owners.length - VICTIMS_MAX} more` : "";
    const tasks = victims.length === 1 ? "a task" : `${victims.length} tasks`;
    const from = victims.length ? ` preempts ${tasks} of ${owners.slice(0, VICTIMS_MAX).join(", ")}${more}` : " preempts nothing";
    return `${objectID}${queueName ? ` of ${queueName}` : ""}${from}${nodeID ? ` on ${nodeID}` : ""}`;
}

const whyOf = (/** @type {EventRecord} */ event) => event.preemption?.why ?? event.message;
const lostOf = (/** @type {EventRecord} */ { preemption }) => (preemption?.workLost ? lost(preemption.workLost) : "");

/** Work that is lost, in hours of the first type. */
function lost(amounts) {
    const [type] = inOrder(Object.keys(amounts));
    return type ? `${amount(type, amounts[type] / 3600)} ${type}·h` : "";
}

export class Preemptions {
    constructor(app, log) {
        this.app = app;
        this.log = log;
        this.grid = new Grid({
            app,
            host: byId("preemptions"),
            label: "Preemptions, the newest first",
            linked: "story",
            target: targetOfEvent,
            columns: [
                timeColumn,
                {
                    key: "story", title: "What happened", kind: "reason", value: ({ event }) => storyOf(event),
                    fill: (cell, { event }) => drawLong(cell, storyOf(event)),
                },
                {
                    key: "why", title: "Why", kind: "reason", value: ({ event }) => whyOf(event),
                    fill: (cell, { event }) => drawLong(cell, whyOf(event)),
                },
                { key: "lost", title: "Work lost", kind: "number wide", fill: (cell, { event }) => setText(cell, lostOf(event)) },
            ],
        });
    }

    /** Show the present state. */
    update() {
        setText(byId("preemptions-count"), this.app.none(this.#count()));
        const { address, partition } = this.app;
        const last = this.log.preemptions.at(-1)?.sequence;
        const wanted = `${this.log.preemptions.length} ${last} ${partition.name} ${address.find} ${address.get("sort")}`;
        this.grid.renew(wanted, () => this.#list());
    }

    #list() {
        const { address, partition } = this.app;
        const text = address.find;
        const hasText = (event) => `${storyOf(event)} ${whyOf(event)}`.toLowerCase().includes(text);
        const isWanted = (event) => event.partition === partition.name && hasText(event);
        const found = this.log.preemptions.filter(isWanted).reverse().map((event) => ({ key: event, event }));
        this.grid.show(this.grid.sorted(found), this.app.none(text ? "No preemption has this." : this.#nothing()));
    }

    #count() {
        if (!this.app.partition.showsAll) return "how many there were is not shown to you; below are yours among the last events";
        const { preemptions, evictions } = this.app.partition.preemption;
        return `${preemptions} preemptions of ${evictions} tasks since the start; below are those of the last events`;
    }

    #nothing() {
        return this.app.partition.showsAll ? "Nothing was preempted." : "Nothing was preempted for what you may see.";
    }
}
