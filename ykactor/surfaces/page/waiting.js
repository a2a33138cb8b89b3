// What waits, folded by reason: a row for each reason, below it the applications whose asks wait for it.

import { ageSince, amount, count, of } from "./amounts.js";
import { drawFolded } from "./cells.js";
import { byId, element, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { REASONS, reasonOf, reasonsOf } from "./reasons.js";

export class Waiting {
    /** The reasons that are open. */
    #open = new Set();

    constructor(app) {
        this.app = app;
        const choices = Object.entries(REASONS).map(([code, words]) => element("option", { value: code }, words));
        byId("waiting-reason").append(...choices);
        this.grid = new Grid({
            app,
            host: byId("waiting"),
            label: "Reasons for which asks wait, and their applications",
            linked: "reason",
            target: targetOf,
            onOpen: (item) => (item.level ? app.address.set(targetOf(item)) : this.#fold(item, !this.#open.has(item.key))),
            tree: {
                isOpen: (item) => (item.level ? null : this.#open.has(item.key)),
                fold: (item, open) => this.#fold(item, open),
            },
            columns: [
                {
                    key: "reason", title: "Reason", kind: "name",
                    value: (item) => item.words, fill: (cell, item) => this.#drawName(cell, item),
                },
                {
                    key: "asks", title: "Asks", kind: "number",
                    value: (item) => item.asks, fill: (cell, item) => setText(cell, count(item.asks)),
                },
                {
                    key: "applications", title: "Applications", kind: "number wide",
                    value: (item) => item.applications,
                    fill: (cell, item) => setText(cell, item.level ? "" : count(item.applications)),
                },
                {
                    key: "wants", title: "Wants", kind: "number wide",
                    value: (item) => this.#wants(item), fill: (cell, item) => setText(cell, this.#wanted(item)),
                },
                {
                    key: "wait", title: "Longest wait", kind: "number",
                    value: (item) => (item.since ? -item.since : -Infinity),
                    fill: (cell, item) => setText(cell, item.since ? ageSince(item.since) : ""),
                },
            ],
        });
    }

    /** Show the present state. */
    update() {
        const { address, partition, snapshots, state } = this.app;
        const wanted = `${snapshots} ${partition.name} ${this.app.type} ${location.hash}`;
        const seconds = Math.round((performance.now() - state.snapshotAt) / 1000);
        setText(byId("waiting-age"), snapshots ? `reasons as of ${seconds} s ago` : "");
        this.grid.renew(wanted, () => this.#list(address.find, address.get("reason")));
    }

    #fold(item, open) {
        if (item.level) return;
        if (open) this.#open.add(item.key);
        else this.#open.delete(item.key);
        this.grid.forget();
        this.update();
    }

    #list(text, code) {
        const isWanted = (found) => (!code || found.code === code) && (!text || textOf(found).includes(text));
        const found = reasonsOf(this.app.partition, isWanted);
        const items = [];
        for (const reason of this.grid.sorted(found.sort((a, b) => b.asks - a.asks))) {
            items.push({ ...reason, level: 0 });
            if (this.#open.has(reason.key)) items.push(...this.grid.sorted(reason.groups.map(below)));
        }
        const none = text || code ? "No ask that waits is like this." : "Nothing waits: all asks have their nodes.";
        this.grid.show(items, this.app.none(none));
    }

    #wants(item) {
        return item.groups.reduce((sum, { group }) => sum + group.count * of(group.resource, this.app.type), 0);
    }

    #wanted(item) {
        const wants = this.#wants(item);
        return wants ? amount(this.app.type, wants) : "";
    }

    #drawName(cell, { key, level, words: name, more }) {
        drawFolded(cell, { level, isOpen: level ? null : this.#open.has(key), name, more, title: `${name}: ${more}` });
    }
}

const targetOf = ({ level, application, code }) => (level ? { show: `application:${application}` } : { reason: code });

/** The row of an application below its reason. */
function below({ application, group, key }) {
    const { reason, oldestTime, count: asks } = group;
    const shown = { words: application, more: reason, asks, applications: 1, since: oldestTime };
    return { key, level: 1, application, groups: [{ group }], ...shown };
}

function textOf({ application, entry, group }) {
    const { words, more } = reasonOf(group);
    const parts = [application, entry.queueName, entry.user ?? "", group.reason, words, more, ...group.allocationKeys];
    return parts.join(" ").toLowerCase();
}
