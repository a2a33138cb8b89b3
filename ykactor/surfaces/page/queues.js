// The tree of queues: usage against guarantee and maximum, priorities, and how many asks wait where.

import { amount, count, of, priority } from "./amounts.js";
import { drawUsage } from "./bar.js";
import { drawFolded, isHeld } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { nameOf, parentOf, pathsOf } from "./paths.js";

/** In a tree of up to so many queues all are open at first. */
const OPEN_MAX = 100;

export class QueueTree {
    #children = new Map();
    /** What the user has opened or closed. */
    #folds = new Map();

    constructor(app) {
        this.app = app;
        const queue = (item) => app.partition.queues.get(item.key) ?? {};
        this.grid = new Grid({
            app,
            host: byId("queues"),
            label: "Queues",
            linked: "queue",
            target: (item) => ({ show: `queue:${item.key}` }),
            tree: { isOpen: (item) => item.isOpen, fold: (item, open) => this.#fold(item.key, open) },
            columns: [
                {
                    key: "queue", title: "Queue", kind: "name", value: (item) => item.key,
                    fill: (cell, item) => drawName(cell, item, marksOf(queue(item))),
                },
                {
                    key: "used", title: "Used", kind: "usage", value: (item) => of(queue(item).allocated, app.type),
                    fill: (cell, item) => drawUsage(cell, queue(item), app.type, app.partition.capacity(app.type)),
                },
                {
                    key: "pending", title: "Pending", kind: "number wide", value: (item) => of(queue(item).pending, app.type),
                    fill: (cell, item) => setText(cell, this.#pending(queue(item))),
                },
                {
                    key: "priority", title: "Priority", kind: "number wide", value: (item) => queue(item).priority ?? -Infinity,
                    fill: (cell, item) => setText(cell, priority(queue(item).priority)),
                },
                {
                    key: "running", title: "Running", kind: "number wide", value: (item) => queue(item).runningApplications ?? 0,
                    fill: (cell, item) => setText(cell, running(queue(item))),
                },
                {
                    key: "waiting", title: "Waiting", kind: "number", value: (item) => queue(item).pendingAsks ?? 0,
                    fill: (cell, item) => setText(cell, queue(item).pendingAsks ? count(queue(item).pendingAsks) : ""),
                },
            ],
        });
    }

    /** Show the present state. */
    update() {
        const { address, partition, shape, snapshots, type } = this.app;
        const ordered = address.get("sort") && `${snapshots} ${type}`;
        const wanted = `${shape.queues} ${partition.name} ${address.get("find")} ${address.get("sort")} ${ordered}`;
        this.grid.renew(wanted, () => this.#read());
    }

    #read() {
        this.#children = new Map();
        for (const path of [...this.app.partition.queues.keys()].sort()) {
            const above = this.app.partition.queues.has(parentOf(path)) ? parentOf(path) : "";
            if (!this.#children.has(above)) this.#children.set(above, []);
            this.#children.get(above).push(path);
        }
        this.#list();
    }

    #fold(path, open) {
        this.#folds.set(path, open);
        this.#list();
    }

    /** Make the rows: of the queues that are open, or of those that are looked for. */
    #list() {
        const items = [];
        const found = this.#found();
        const visit = (paths, level) => {
            for (const { key: path } of this.grid.sorted(paths.map((key) => ({ key })))) {
                if (found !== null && !found.has(path)) continue;
                const below = this.#children.get(path);
                const isOpen = below === undefined ? null : found !== null || this.#isOpen(path, level);
                items.push({ key: path, level, isOpen });
                if (isOpen) visit(below, level + 1);
            }
        };
        visit(this.#children.get("") ?? [], 0);
        const none = found === null ? "You may read no queue here." : "No queue has this in its path.";
        this.grid.show(items, this.app.none(none));
    }

    /** The queues that are looked for, with those above them; null if none are. */
    #found() {
        const text = this.app.address.find;
        if (!text) return null;
        const found = [...this.app.partition.queues.keys()].filter((path) => path.toLowerCase().includes(text));
        return new Set(found.flatMap(pathsOf));
    }

    #isOpen(path, level) {
        return this.#folds.get(path) ?? (level === 0 || this.app.partition.queues.size <= OPEN_MAX);
    }

    #pending(queue) {
        const value = of(queue.pending, this.app.type);
        return value === 0 ? "" : amount(this.app.type, value);
    }
}

/** What is unusual about a queue. */
function marksOf(queue) {
    const { state = "Active" } = queue;
    const above = queue.aboveMax ? "above its maximum" : "";
    const marks = [state === "Active" ? "" : state.toLowerCase(), isHeld(queue) ? "held" : "", above];
    return marks.filter(Boolean).join(", ");
}

function drawName(cell, { key, level, isOpen }, more) {
    drawFolded(cell, { level, isOpen, name: level === 0 ? key : nameOf(key), more, title: key });
}

function running(queue) {
    if (queue.runningApplications === undefined) return "";
    return queue.runningApplications + (queue.maxApplications ? ` of ${queue.maxApplications}` : "");
}
