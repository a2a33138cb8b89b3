// The list of the last events, with filters and a pause.

import { amounts } from "./amounts.js";
import { drawLong, targetOfEvent, timeColumn } from "./cells.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { EVENTS_MAX } from "./eventlog.js";
import { Grid } from "./grid.js";
/** @import { EventRecord } from "./messages" */

/** The list is made again at most so often. */
const LIST_MS = 200;
const KINDS = ["APP", "NODE", "QUEUE", "USERGROUP", "REQUEST", "AUDIT"];

const kindOf = (/** @type {EventRecord} */ event) =>
    event.eventChangeDetail && event.eventChangeDetail !== "DETAILS_NONE"
        ? event.eventChangeDetail
        : `${event.type} ${event.eventChangeType === "NONE" ? "" : (event.eventChangeType ?? "")}`;

/** What has happened, in one line. */
function whatOf(event) {
    const parts = [event.referenceID, event.message, event.resource ? amounts(event.resource) : ""];
    return parts.filter(Boolean).join("  ");
}

const textOf = (event) => `${event.objectID} ${event.queueName ?? ""} ${kindOf(event)} ${whatOf(event)}`.toLowerCase();

export class EventList {
    #listedAt = -LIST_MS;
    #wanted = "";
    /** How many events there were when it was paused, and the last of them; null while it goes on. */
    #pausedAt = null;
    #held = null;

    constructor(app, log) {
        this.app = app;
        this.log = log;
        byId("events-kind").append(...["", ...KINDS].map((kind) => element("option", { value: kind }, kind || "all")));
        this.pause = byId("events-pause");
        this.pause.addEventListener("click", () => this.#togglePause());
        this.grid = new Grid({
            app,
            host: byId("events"),
            label: "Events, the newest first",
            linked: "about",
            target: targetOfEvent,
            columns: [
                {
                    key: "number", title: "Number", kind: "number wide",
                    value: ({ event }) => event.sequence, fill: (cell, { event }) => setText(cell, String(event.sequence)),
                },
                timeColumn,
                {
                    key: "kind", title: "Kind", kind: "kind",
                    value: ({ event }) => kindOf(event), fill: (cell, { event }) => setText(cell, kindOf(event)),
                },
                {
                    key: "about", title: "About",
                    value: ({ event }) => event.objectID, fill: (cell, { event }) => setText(cell, event.objectID),
                },
                { key: "what", title: "What", kind: "reason", fill: (cell, { event }) => drawLong(cell, whatOf(event)) },
            ],
        });
    }

    /** Show the present events, unless they are paused. */
    update() {
        const isNew = this.#wanted !== this.#key();
        if (this.#pausedAt !== null) this.#tell();
        if (isNew && performance.now() - this.#listedAt >= LIST_MS) return this.#list();
        this.grid.draw();
    }

    #key() {
        return `${this.log.count} ${this.app.partition.name} ${location.hash}`;
    }

    #togglePause() {
        this.#pausedAt = this.#pausedAt === null ? this.log.count : null;
        this.#held = this.#pausedAt === null ? null : [...this.log.events];
        setAttribute(this.pause, "aria-pressed", this.#pausedAt !== null);
        setText(this.pause, this.#pausedAt === null ? "Pause" : "Go on");
        this.#list();
    }

    #list() {
        this.#listedAt = performance.now();
        this.#wanted = this.#key();
        const text = this.app.address.find;
        const found = (this.#held ?? this.log.events).filter((event) => this.#isWanted(event, text)).slice(-EVENTS_MAX).reverse();
        const items = found.map((event) => ({ key: event, event }));
        this.grid.show(this.grid.sorted(items), this.app.none("No event is like this."));
        this.#tell();
    }

    #isWanted(event, text) {
        const kind = this.app.address.get("kind");
        if (event.type === "MISSING") return true;
        if (event.partition && event.partition !== this.app.partition.name) return false;
        return (!kind || event.type === kind) && (!text || textOf(event).includes(text));
    }

    #tell() {
        const { count, events } = this.log;
        const text = this.#pausedAt === null ? `the last ${events.length}` : `paused, ${count - this.#pausedAt} new`;
        setText(byId("events-count"), text);
    }
}
