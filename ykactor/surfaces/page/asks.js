// What waits, and why: groups of asks that wait for the same reason, the oldest first.

import { ageSince, amounts, priority } from "./amounts.js";
import { drawLong } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { Partition } from "./state.js" */

export class Asks {
    #drawn = "";

    constructor(app) {
        this.app = app;
        this.find = byId("asks").querySelector("input");
        this.find.addEventListener("input", () => this.update());
        this.grid = new Grid({
            host: byId("asks"),
            label: "Asks that wait, and why",
            onOpen: (item) => app.select("application", item.application),
            columns: [
                { title: "Asks", kind: "number", fill: (cell, item) => setText(cell, String(item.group.count)) },
                { title: "Application", fill: (cell, item) => setText(cell, item.application) },
                { title: "Queue", kind: "wide", fill: (cell, item) => setText(cell, item.queue) },
                { title: "Each wants", kind: "wide", fill: (cell, item) => drawLong(cell, amounts(item.group.resource)) },
                { title: "Priority", kind: "number wide", fill: (cell, item) => setText(cell, priority(item.priority)) },
                { title: "Since", kind: "number", fill: (cell, item) => setText(cell, item.since ? ageSince(item.since) : "") },
                { title: "Why", kind: "reason", fill: (cell, item) => drawLong(cell, item.group.reason) },
            ],
        });
    }

    /** Show the present state. */
    update() {
        const wanted = `${this.app.snapshots} ${this.app.partition.name} ${this.find.value}`;
        const seconds = Math.round((performance.now() - this.app.state.snapshotAt) / 1000);
        setText(byId("asks-age"), `reasons as of ${seconds} s ago`);
        if (wanted === this.#drawn) return this.grid.draw();
        this.#drawn = wanted;
        const text = this.find.value.trim().toLowerCase();
        const found = groupsOf(this.app.partition).filter((item) => item.text.includes(text));
        found.sort((a, b) => (a.since || Infinity) - (b.since || Infinity));
        this.grid.show(found, this.app.none(text ? "No ask that waits has this." : "Nothing waits."));
    }
}

/**
 * All groups of asks that wait in a partition.
 * @param {Partition} partition
 */
function groupsOf(partition) {
    const found = [];
    for (const [application, entry] of partition.applications)
        for (const group of entry.pending ?? []) {
            const words = [application, entry.queueName, entry.user ?? "", group.reason, ...group.allocationKeys];
            const text = words.join(" ").toLowerCase();
            const key = `${application}/${group.allocationKeys[0]}`;
            const shown = { priority: group.effectivePriority, since: group.oldestTime };
            found.push({ key, application, queue: entry.queueName, group, text, ...shown });
        }
    return found;
}
