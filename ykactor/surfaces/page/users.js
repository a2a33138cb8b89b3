// What users and groups use in each queue, and what they may use there.

import { amount, count, of } from "./amounts.js";
import { drawUsage } from "./bar.js";
import { textColumn } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
/** @import { Partition } from "./state.js" */

export class Users {
    constructor(app) {
        this.app = app;
        this.grid = new Grid({
            app,
            host: byId("users"),
            label: "Users and groups, with their limits",
            linked: "who",
            target: (item) => ({ show: `user:${item.whose}` }),
            columns: [
                { key: "who", title: "Who", value: (item) => item.whose, fill: (cell, item) => setText(cell, item.whose) },
                textColumn("queue", "Queue", (item) => item.queue, "path"),
                {
                    key: "uses", title: "Uses", kind: "usage", value: (item) => of(item.allocated, app.type),
                    fill: (cell, item) => drawUsage(cell, item, app.type, app.partition.capacity(app.type)),
                },
                {
                    key: "left", title: "Left", kind: "number wide", value: (item) => leftOf(item, app.type) ?? Infinity,
                    fill: (cell, item) => setText(cell, left(item, app.type)),
                },
                {
                    key: "applications", title: "Running", kind: "number wide", value: (item) => item.applications.length,
                    fill: (cell, item) => setText(cell, running(item)),
                },
            ],
        });
    }

    /** Show the present state. */
    update() {
        const { address, partition, snapshots, type } = this.app;
        const wanted = `${snapshots} ${partition.name} ${type} ${address.get("find")} ${address.get("sort")}`;
        this.grid.renew(wanted, () => this.#list());
    }

    #list() {
        const { address, partition } = this.app;
        const text = address.find;
        const found = usesOf(partition).filter((item) => `${item.whose} ${item.queue}`.toLowerCase().includes(text));
        const none = text ? "No user, group or queue has this in its name." : "Nobody uses anything, and there are no limits.";
        this.grid.show(this.grid.sorted(found), this.app.none(none));
    }
}

/**
 * One use for each limit, and one for each leaf in which no limit counts what a user has.
 * @param {Partition} partition
 */
export function usesOf(partition) {
    const found = new Map();
    for (const limit of partition.limits) found.set(keyOf(limit), { key: keyOf(limit), ...limit });
    const limited = new Set(found.keys());
    for (const [name, { user, queueName, allocated }] of partition.applications) {
        const key = keyOf({ whose: `user ${user}`, queue: queueName });
        if (!user || !allocated || limited.has(key)) continue;
        const none = { max: null, maxApplications: 0, allocated: {}, applications: [] };
        if (!found.has(key)) found.set(key, { key, whose: `user ${user}`, queue: queueName, ...none });
        const use = found.get(key);
        for (const [type, value] of Object.entries(allocated)) use.allocated[type] = of(use.allocated, type) + value;
        if (Object.keys(allocated).length) use.applications.push(name);
    }
    return [...found.values()];
}

const keyOf = ({ whose, queue }) => `${whose} ${queue}`;

function leftOf({ max, allocated }, type) {
    return max && Object.hasOwn(max, type) ? Math.max(0, max[type] - of(allocated, type)) : null;
}

const left = (item, type) => (leftOf(item, type) === null ? "no limit" : amount(type, leftOf(item, type)));

const running = ({ applications, maxApplications }) =>
    maxApplications ? `${count(applications.length)} of ${count(maxApplications)}` : count(applications.length);
