// The nodes: a map or a list, grouped by an attribute.

import { count, percent } from "./amounts.js";
import { byId, element, setText } from "./dom.js";
import { isOver } from "./health.js";
import { NodeList } from "./nodelist.js";
import { NodeMap } from "./nodemap.js";
import { textOf } from "./session.js";
import { natural } from "./sorting.js";

const NONE_FOUND = "No node has this in its name, state or attributes.";
const NOT_SHOWN = "Nodes are not shown to you: what you may read is limited to queues.";
/** More values of an attribute are one group. */
const GROUPS_MAX = 60;
const OTHER = "other";
const ATTRIBUTES_MS = 10_000;
/** Drawn at most so often, unless it is pointed at. */
const DRAW_MS = 250;

export class Nodes {
    #drawn = "";
    #drawnAt = -Infinity;
    /** Attributes by node. @type {Record<string, Record<string, string>>} */
    #attributes = {};
    #asked = "";
    #askedAt = -Infinity;
    #version = 0;

    constructor(app) {
        this.app = app;
        this.map = new NodeMap(app, byId("heat"));
        this.list = new NodeList(app);
    }

    /** Show the present state. */
    update() {
        const { address, partition, shape, snapshots, type } = this.app;
        this.#askForAttributes();
        const isList = address.get("as") === "list";
        byId("heat").hidden = isList;
        byId("node-list").hidden = !isList;
        const ordered = isList && address.get("sort") && `${snapshots} ${type}`;
        const wanted = `${shape.nodes} ${partition.name} ${this.#version} ${location.hash} ${ordered} ${snapshots > 0}`;
        if (wanted === this.#drawn && performance.now() - this.#drawnAt < DRAW_MS) return;
        if (wanted !== this.#drawn) this.#group(isList);
        [this.#drawn, this.#drawnAt] = [wanted, performance.now()];
        setText(byId("nodes-summary"), this.#summary());
        if (isList) this.list.draw();
        else this.map.draw();
    }

    /** What attributes nodes have is told by no event: it is asked for when there are other nodes. */
    async #askForAttributes() {
        const { partition, shape } = this.app;
        const wanted = `${partition.name} ${shape.nodes}`;
        const now = performance.now();
        if (!partition.showsAll || wanted === this.#asked || now - this.#askedAt < ATTRIBUTES_MS) return;
        [this.#asked, this.#askedAt] = [wanted, now];
        try {
            const { status, text } = await textOf(`/ws/v1/partition/${encodeURIComponent(partition.name)}/node-attributes`);
            this.#attributes = status === 200 ? JSON.parse(text) : {};
        } catch {
            this.#asked = "";  // the line at the top tells that the daemon does not answer
        }
        this.#version += 1;
        this.#offer();
    }

    /** The attributes by which nodes can be grouped: those that several nodes share. */
    #offer() {
        const values = new Map();
        const all = Object.values(this.#attributes);
        for (const attributes of all)
            for (const [name, value] of Object.entries(attributes)) {
                if (!values.has(name)) values.set(name, new Set());
                values.get(name).add(value);
            }
        const shared = [...values].filter(([, found]) => found.size < Math.max(2, all.length)).map(([name]) => name).sort();
        const select = byId("nodes-by");
        select.replaceChildren(...["", ...shared].map((name) => element("option", { value: name }, name || "nothing")));
        select.value = this.app.address.get("by");
        select.parentElement.hidden = shared.length === 0;
    }

    #group(isList) {
        const { address, partition } = this.app;
        const [text, by] = [address.find, address.get("by")];
        const found = [...partition.nodes.keys()].filter((name) => !text || this.#textOf(name).includes(text));
        const keyed = found.map((name) => [natural(name), name]).sort(([a], [b]) => (a < b ? -1 : 1));
        const groups = new Map();
        for (const [, name] of keyed) {
            const value = by ? (this.#own(name)[by] ?? OTHER) : "";
            const group = groups.has(value) || groups.size < GROUPS_MAX ? value : OTHER;
            if (!groups.has(group)) groups.set(group, []);
            groups.get(group).push(name);
        }
        const ordered = [...groups].sort(([a], [b]) => (natural(a) < natural(b) ? -1 : 1));
        const none = this.app.none(partition.showsAll ? (text ? NONE_FOUND : "There are no nodes.") : "");
        this.names = keyed.map(([, name]) => name);
        if (isList) this.list.show(ordered, by, none);
        else this.map.show(ordered, by);
        setText(byId("nodes-none"), isList || this.names.length ? "" : none);
    }

    #own(name) {
        return Object.hasOwn(this.#attributes, name) ? this.#attributes[name] : {};
    }

    #textOf(name) {
        const node = this.app.partition.nodes.get(name);
        const words = Object.entries(this.#own(name)).map(([key, value]) => `${key}=${value}`);
        return [name, node.schedulable ? "" : "drained draining", ...words].join(" ").toLowerCase();
    }

    #summary() {
        const { partition } = this.app;
        if (!partition.showsAll) return this.app.none(NOT_SHOWN);
        if (this.names.length === 0) return "";
        let [sum, drained, over] = [0, 0, 0];
        for (const name of this.names) {
            const node = partition.nodes.get(name);
            if (node === undefined) continue;
            sum += node.dominantShare;
            drained += !node.schedulable;
            over += isOver(node);
        }
        const mean = percent(sum / this.names.length);
        const more = over ? `, ${over} over capacity` : "";
        return `${count(this.names.length)} nodes, ${mean} in use on average, ${drained} drained${more}`;
    }
}
