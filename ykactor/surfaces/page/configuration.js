// The configuration in force: its text, and who has changed it last, as far as the events that are known here tell it.

import { ageSince, timeOfDay } from "./amounts.js";
import { drawLong } from "./cells.js";
import { byId, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { textOf } from "./session.js";

const NOT_SHOWN = "The configuration is of all queues and partitions, and is not shown to you.";

export class Configuration {
    /** The last event about it that the shown text has; null before the first. */
    #loaded = null;
    #lines = [];

    constructor(app, log) {
        this.app = app;
        this.log = log;
        this.grid = new Grid({
            app,
            host: byId("configuration"),
            label: "The text of the configuration",
            linked: "text",
            target: ({ text }) => (text.trim() ? { find: text.trim() } : null),
            onOpen: () => {},
            rowPx: 22,
            columns: [
                { key: "number", title: "", kind: "line", fill: (cell, item) => setText(cell, String(item.key)) },
                { key: "text", title: "The queue file in force", kind: "code", fill: (cell, item) => setText(cell, item.text) },
            ],
        });
    }

    /** Show the present state; the text is read again after each change. */
    update() {
        const changed = this.log.configuration;
        const loaded = `${changed?.sequence} ${this.app.snapshots > 0}`;
        if (this.#loaded !== loaded) {
            this.#loaded = loaded;
            if (this.app.snapshots > 0) this.#load();
        }
        this.#tell(changed);
        this.grid.renew(this.app.address.find, () => this.#list());
    }

    #list() {
        const text = this.app.address.find;
        const found = this.#lines.filter((line) => line.text.toLowerCase().includes(text));
        this.grid.show(found, this.#lines.length ? "No line has this." : "");
    }

    async #load() {
        if (!this.app.partition.showsAll) return setText(byId("configuration-notice"), NOT_SHOWN);
        try {
            const { status, text } = await textOf("/ws/v1/config");
            this.#lines = text.split("\n").map((line, index) => ({ key: index + 1, text: line }));
            if (status === 403) this.#lines = [];
            setText(byId("configuration-notice"), status === 403 ? NOT_SHOWN : "");
        } catch (error) {
            setText(byId("configuration-notice"), `It cannot be read: ${error.message}`);
        }
        this.grid.forget();
    }

    #tell(changed) {
        const { unconfirmed } = this.app.state.daemon;
        const told = changed && `changed ${ageSince(changed.timestampNano)} ago: ${changed.message}`;
        const last = told ?? "no change among the last events";
        const awaits = unconfirmed ? `; ${unconfirmed.who} has to confirm it by ${timeOfDay(unconfirmed.until)}` : "";
        drawLong(byId("configuration-change"), this.app.none(last + awaits));
    }
}
