// The applications, with a search.

import { ageSince, amounts } from "./amounts.js";
import { isHeld } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { ApplicationStatus } from "./messages" */

/** What is known of one; of one that is new, or gone, only some of it. @typedef {Partial<ApplicationStatus>} Known */

export class Applications {
    #drawn = "";

    constructor(app) {
        this.app = app;
        this.find = byId("applications").querySelector("input");
        this.find.addEventListener("input", () => this.update());
        /** @type {(item: { key: string }) => Known} */
        const entry = (item) => app.partition.applications.get(item.key) ?? { state: "gone" };
        this.grid = new Grid({
            host: byId("applications"),
            label: "Applications",
            onOpen: (item) => app.select("application", item.key),
            columns: [
                { title: "Application", fill: (cell, item) => setText(cell, item.key) },
                { title: "State", fill: (cell, item) => setText(cell, stateOf(entry(item))) },
                { title: "Queue", kind: "wide", fill: (cell, item) => setText(cell, entry(item).queueName ?? "") },
                { title: "User", kind: "wide", fill: (cell, item) => setText(cell, entry(item).user ?? "") },
                { title: "Tasks", kind: "number", fill: (cell, item) => setText(cell, String(tasks(entry(item)))) },
                { title: "Waiting", kind: "number", fill: (cell, item) => setText(cell, String(waiting(entry(item)) || "")) },
                { title: "Uses", kind: "wide", fill: (cell, item) => setText(cell, amounts(entry(item).allocated)) },
                { title: "Age", kind: "number", fill: (cell, item) => setText(cell, age(entry(item))) },
            ],
        });
    }

    /** Show the present state. */
    update() {
        const wanted = `${this.app.shape.applications} ${this.app.partition.name} ${this.find.value}`;
        if (wanted === this.#drawn) return this.grid.draw();
        this.#drawn = wanted;
        const text = this.find.value.trim().toLowerCase();
        const isFound = ([name, entry]) => !text || textOf(name, entry).includes(text);
        const found = [...this.app.partition.applications].filter(isFound);
        found.sort(([, a], [, b]) => (b.submissionTime ?? 0) - (a.submissionTime ?? 0));
        setText(byId("applications-count"), `${found.length} of ${this.app.partition.applications.size}, the newest first`);
        const items = found.map(([key]) => ({ key }));
        this.grid.show(items, this.app.none(text ? "No application has this." : "There are no applications."));
    }
}

function textOf(name, /** @type {Known} */ application) {
    const { queueName, user, outcome, state } = application;
    return `${name} ${queueName} ${user ?? ""} ${outcome ?? state}`.toLowerCase();
}
function stateOf(/** @type {Known} */ application) {
    return (application.outcome ?? application.state) + (isHeld(application) ? ", held" : "");
}
const tasks = (/** @type {Known} */ application) => Object.keys(application.allocations ?? {}).length;
const waiting = (/** @type {Known} */ application) => (application.pending ?? []).reduce((sum, group) => sum + group.count, 0);
const age = (/** @type {Known} */ application) => (application.submissionTime ? ageSince(application.submissionTime) : "");
