// The applications, with the progress of their tasks as far as it is known here.

import { amount, amounts, count, of } from "./amounts.js";
import { newBar } from "./bar.js";
import { ageColumn, drawTrouble, isHeld, stateIsTrouble, textColumn } from "./cells.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { ApplicationStatus } from "./messages" */

/** What is known of one; of one that is new, or gone, only some of it. @typedef {Partial<ApplicationStatus>} Known */

export class Applications {
    constructor(app) {
        this.app = app;
        /** @type {(item: { key: string }) => Known} */
        const entry = (item) => app.partition.applications.get(item.key) ?? { state: "gone" };
        this.grid = new Grid({
            app,
            host: byId("applications"),
            label: "Applications",
            linked: "application",
            target: (item) => ({ show: `application:${item.key}` }),
            columns: columnsOf(app, entry),
        });
    }

    /** Show the present state. */
    update() {
        const { address, partition, shape, snapshots, type } = this.app;
        const ordered = address.get("sort") && `${snapshots} ${type}`;
        const wanted = `${shape.applications} ${partition.name} ${address.get("find")} ${address.get("sort")} ${ordered}`;
        this.grid.renew(wanted, () => this.#list());
    }

    #list() {
        const { address, partition } = this.app;
        const text = address.find;
        const items = [];
        for (const [key, found] of partition.applications) {
            const words = [key, found.queueName, found.user ?? "", stateOf(found)];
            if (!text || words.join(" ").toLowerCase().includes(text)) items.push({ key });
        }
        setText(byId("applications-count"), this.app.none(`${count(items.length)} of ${count(partition.applications.size)}`));
        const none = text ? "No application has this in its name, queue, user or state." : "There are no applications.";
        this.grid.show(this.grid.sorted(items), this.app.none(none));
    }
}

function columnsOf(app, entry) {
    const used = (item) => of(entry(item).allocated, app.type);
    return [
        { key: "application", title: "Application", value: (item) => item.key, fill: (cell, item) => setText(cell, item.key) },
        {
            key: "state", title: "State", value: (item) => stateOf(entry(item)),
            fill: (cell, item) => drawState(cell, stateOf(entry(item))),
        },
        textColumn("queue", "Queue", (item) => entry(item).queueName ?? "", "wide"),
        textColumn("user", "User", (item) => entry(item).user ?? "", "wide"),
        {
            key: "tasks", title: "Tasks", kind: "progress", value: (item) => tasksOf(entry(item)),
            fill: (cell, item) => drawProgress(cell, entry(item)),
        },
        {
            key: "waiting", title: "Waiting", kind: "number wide", value: (item) => waitingOf(entry(item)),
            fill: (cell, item) => setText(cell, count(waitingOf(entry(item))).replace(/^0$/, "")),
        },
        {
            key: "uses", title: "Uses", kind: "number wide", value: used,
            fill: (cell, item) => drawUses(cell, app.type, used(item), entry(item)),
        },
        ageColumn(entry),
    ];
}

const tasksOf = (/** @type {Known} */ { allocations = {} }) => Object.keys(allocations).length;
const waitingOf = (/** @type {Known} */ { pending = [] }) => pending.reduce((sum, { count: asks }) => sum + asks, 0);

function stateOf(/** @type {Known} */ entry) {
    const state = entry.outcome ?? entry.state ?? "";
    return isHeld(entry) ? `${state}, held` : state;
}

function drawState(cell, state) {
    setText(cell, state);
    drawTrouble(cell, stateIsTrouble(state));
}

/** How many tasks run, of all that run or wait. */
function drawProgress(cell, /** @type {Known} */ entry) {
    if (cell.childElementCount === 0) cell.append(newBar(), element("span"));
    const [bar, text] = cell.children;
    const [tasks, waiting] = [tasksOf(entry), waitingOf(entry)];
    bar.firstElementChild.style.transform = `scaleX(${tasks ? tasks / (tasks + waiting) : 0})`;
    setText(text, waiting ? `${count(tasks)} of ${count(tasks + waiting)}` : count(tasks));
}

function drawUses(cell, type, value, /** @type {Known} */ entry) {
    setText(cell, value ? amount(type, value) : "");
    setAttribute(cell, "title", amounts(entry.allocated));
}
