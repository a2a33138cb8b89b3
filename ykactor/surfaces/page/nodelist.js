// The nodes as a list; a group of them is a row that opens.

import { amount, count, of } from "./amounts.js";
import { drawShare } from "./bar.js";
import { drawFolded, drawTrouble } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { isOver } from "./health.js";

export class NodeList {
    #groups = [];
    #by = "";
    #none = "";
    /** The groups that were closed. */
    #closed = new Set();

    constructor(app) {
        this.app = app;
        /** Of a node that is gone, nothing. */
        const node = (item) => app.partition.nodes.get(item.key);
        const free = (item) => of(node(item)?.available, app.type);
        this.grid = new Grid({
            app,
            host: byId("node-list"),
            label: "Nodes",
            linked: "node",
            target: (item) => (item.isOpen === null ? { show: `node:${item.key}` } : { find: `${this.#by}=${item.key}` }),
            onOpen: (item) => (item.isOpen === null ? app.select("node", item.key) : this.#fold(item, !item.isOpen)),
            tree: { isOpen: (item) => item.isOpen, fold: (item, open) => this.#fold(item, open) },
            columns: [
                {
                    key: "node", title: "Node", kind: "name", value: (item) => item.key,
                    fill: (cell, item) => this.#drawName(cell, item),
                },
                {
                    key: "state", title: "State", value: (item) => stateOf(node(item)),
                    fill: (cell, item) => this.#drawState(cell, node(item)),
                },
                {
                    key: "use", title: "In use", kind: "usage", value: (item) => node(item)?.dominantShare ?? 0,
                    fill: (cell, item) => drawShare(cell, this.#share(item)),
                },
                {
                    key: "tasks", title: "Tasks", kind: "number", value: (item) => node(item)?.allocations.length ?? 0,
                    fill: (cell, item) => setText(cell, node(item) ? count(node(item).allocations.length) : ""),
                },
                {
                    key: "free", title: "Free", kind: "number wide", value: free,
                    fill: (cell, item) => setText(cell, node(item) ? amount(app.type, free(item)) : ""),
                },
                {
                    key: "reserved", title: "Reserved", kind: "number wide",
                    value: (item) => node(item)?.reservations.length ?? 0,
                    fill: (cell, item) => setText(cell, node(item)?.reservations.length ? "reserved" : ""),
                },
            ],
        });
    }

    /** Show these groups of names; `by` is the attribute, "" for one group without a row of its own. */
    show(groups, by, none) {
        [this.#groups, this.#by, this.#none] = [groups, by, none];
        const items = [];
        for (const [value, names] of groups) {
            const isOpen = !this.#closed.has(value);
            if (by) items.push({ key: value, level: 0, isOpen, names });
            if (!by || isOpen) items.push(...this.grid.sorted(names.map((key) => ({ key, level: by ? 1 : 0, isOpen: null }))));
        }
        this.grid.show(items, none);
    }

    draw() {
        this.grid.draw();
    }

    #fold(item, open) {
        if (open) this.#closed.delete(item.key);
        else this.#closed.add(item.key);
        this.show(this.#groups, this.#by, this.#none);
    }

    /** The share in use; of a group the mean. */
    #share(item) {
        const { nodes } = this.app.partition;
        if (item.isOpen === null) return nodes.get(item.key)?.dominantShare ?? 0;
        return item.names.reduce((sum, name) => sum + (nodes.get(name)?.dominantShare ?? 0), 0) / item.names.length;
    }

    #drawName(cell, { key, level, isOpen, names }) {
        const isNode = isOpen === null;
        const more = isNode ? "" : `${count(names.length)} nodes`;
        drawFolded(cell, { level, isOpen, name: isNode ? key : `${this.#by}=${key}`, more });
        cell.children[0].hidden = !this.#by;
    }

    #drawState(cell, node) {
        setText(cell, node === undefined ? "" : stateOf(node));
        drawTrouble(cell, node !== undefined && isOver(node));
    }
}

function stateOf(node) {
    if (node === undefined) return "gone";
    if (isOver(node)) return "Over capacity";
    return node.schedulable ? "Schedulable" : Object.keys(node.allocated).length ? "Draining" : "Drained";
}
