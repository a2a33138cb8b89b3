// The jobs: applications whose resource manager says that they are jobs (AP-160), with their progress, the newest first.

import { count } from "./amounts.js";
import { ageColumn, drawLong, drawTrouble, stateIsTrouble, textColumn } from "./cells.js";
import { byId, element, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { drawProgress, jobState, tasksOf, whyOf } from "./progress.js";

const NONE = "No resource manager has told of a job. ykactor local does: ykactor run -- COMMAND";

export class Jobs {
    constructor(app) {
        this.app = app;
        /** Of a job that is gone, nothing. */
        const entry = (item) => app.partition.applications.get(item.key) ?? {};
        this.grid = new Grid({
            app,
            host: byId("jobs"),
            label: "Jobs",
            linked: "job",
            target: (item) => ({ show: `job:${item.key}` }),
            columns: columnsOf(entry),
        });
    }

    /** Show the present state. */
    update() {
        const { address, partition, shape, snapshots } = this.app;
        const wanted = `${snapshots} ${shape.applications} ${partition.name} ${address.get("find")} ${address.get("sort")}`;
        this.grid.renew(wanted, () => this.#list());
    }

    #list() {
        const { address, partition } = this.app;
        const text = address.find;
        const items = [];
        let all = 0;
        for (const [key, found] of partition.applications) {
            if (!found.job) continue;
            all += 1;
            const words = [key, found.job.name, found.queueName, found.user ?? "", jobState(found), whyOf(found)];
            if (!text || words.join(" ").toLowerCase().includes(text)) items.push({ key, since: found.submissionTime ?? 0 });
        }
        items.sort((a, b) => b.since - a.since);
        setText(byId("jobs-count"), this.app.none(`${count(items.length)} of ${count(all)}`));
        const none = text ? "No job has this in its name, queue, user or state." : NONE;
        this.grid.show(this.grid.sorted(items), this.app.none(none));
    }
}

function columnsOf(entry) {
    return [
        {
            key: "job", title: "Job", kind: "name",
            value: (item) => item.key, fill: (cell, item) => drawName(cell, item, entry(item)),
        },
        {
            key: "state", title: "State", value: (item) => jobState(entry(item)),
            fill: (cell, item) => drawState(cell, jobState(entry(item))),
        },
        textColumn("queue", "Queue", (item) => entry(item).queueName ?? "", "wide"),
        textColumn("user", "User", (item) => entry(item).user ?? "", "wide"),
        {
            key: "progress", title: "Tasks done", kind: "progress", value: (item) => share(tasksOf(entry(item))),
            fill: (cell, item) => drawProgress(cell, entry(item)),
        },
        {
            key: "why", title: "Why", kind: "reason", value: (item) => whyOf(entry(item)),
            fill: (cell, item) => drawLong(cell, whyOf(entry(item))),
        },
        ageColumn(entry),
    ];
}

const share = ({ tasks, completed }) => (tasks ? completed / tasks : 0);

function drawName(cell, item, { job }) {
    if (cell.childElementCount === 0) cell.append(element("span"), " ", element("em"));
    setText(cell.children[0], item.key);
    setText(cell.children[1], job?.name ?? "");
}

function drawState(cell, state) {
    setText(cell, state);
    drawTrouble(cell, stateIsTrouble(state));
}
