// The preemptions among the last events, with what allows each.

import { drawLong, timeColumn } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { EventRecord } from "./messages" */

const victimsOf = (/** @type {EventRecord} */ event) => String(event.preemption?.victims.length ?? "");
const whyOf = (/** @type {EventRecord} */ event) => event.preemption?.why ?? event.message;

export class Preemptions {
    #drawn = "";

    constructor(app, log) {
        this.app = app;
        this.log = log;
        this.grid = new Grid({
            host: byId("preemptions"),
            label: "Preemptions, the newest first",
            onOpen: ({ event }) => app.select("event", event),
            columns: [
                timeColumn,
                { title: "For", fill: (cell, { event }) => setText(cell, event.objectID) },
                { title: "Queue", kind: "wide", fill: (cell, { event }) => setText(cell, event.queueName ?? "") },
                { title: "Node", kind: "wide", fill: (cell, { event }) => setText(cell, event.preemption?.nodeID ?? "") },
                { title: "Victims", kind: "number", fill: (cell, { event }) => setText(cell, victimsOf(event)) },
                { title: "Why", kind: "reason", fill: (cell, { event }) => drawLong(cell, whyOf(event)) },
            ],
        });
    }

    /** Show the present state. */
    update() {
        setText(byId("preemptions-count"), this.app.none(this.#count()));
        const wanted = `${this.log.preemptions.length} ${this.log.preemptions.at(-1)?.sequence} ${this.app.partition.name}`;
        if (wanted === this.#drawn) return this.grid.draw();
        this.#drawn = wanted;
        const found = this.log.preemptions.filter((event) => event.partition === this.app.partition.name).reverse();
        this.grid.show(found.map((event) => ({ key: event, event })), this.app.none(this.#nothing()));
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
