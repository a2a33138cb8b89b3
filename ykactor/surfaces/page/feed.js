// The websocket of the feed: one connection, from which number it goes on, and that it is alive.
//
// Events are followed by number. A snapshot is asked for with another subscription on the same websocket; then the events after
// the last known number are asked for again, so that none is missing in what is listed.

import { openSocket } from "./session.js";
/** @import { Bookmark, EventRecord, FeedMessage, JournalStatus, Lagged, Snapshot, SnapshotPart } from "./messages" */

/** So many events before the first snapshot are listed too. */
const HISTORY = 5000;
const CONNECT_MS = 10_000;
/** The daemon says something every 10 s. */
const SILENCE_MS = 30_000;

export class Feed {
    /** The number of the last event, and its term. */
    last = null;
    term = "";
    #socket = null;
    /** When the snapshot was asked for that has not come yet. */
    #askedAt = null;
    /** What has come of the next snapshot: to decode all of it at once would take long. @type {SnapshotPart[]} */
    #parts = [];
    /** Whether what comes belongs to a subscription that was replaced. */
    #isReplacing = false;
    #heardAt = 0;
    /** What the next snapshot must have, wherever it is read: the answer to the last request of an operator. */
    #written = { term: "", turns: {} };

    /**
     * Tells everything to a receiver.
     * @param {{
     *     onSnapshot(message: Snapshot, parts: SnapshotPart[], tookMs: number): void, onEvents(events: EventRecord[]): void,
     *     onLive(): void, onMissing(from: number, to: number): void, onRestart(reason: string): void,
     *     onJournal(status: JournalStatus): void,
     * }} receiver
     */
    constructor(receiver) {
        this.receiver = receiver;
    }

    /** Follow the feed until the connection ends; raises an Error that says why. */
    follow(session) {
        return new Promise((_, reject) => {
            const socket = openSocket(session, "/v1/feed");
            this.#socket = socket;
            this.#askedAt = null;
            this.#parts = [];
            this.#isReplacing = false;
            this.#heardAt = performance.now();
            const watch = setInterval(() => this.#isSilent() && end("the daemon says nothing"), 1000);
            const end = (reason) => {
                clearInterval(watch);
                if (this.#socket === socket) this.#socket = null;
                socket.onmessage = socket.onclose = null;
                socket.close();
                reject(new Error(reason));
            };
            socket.onopen = () => (this.last === null ? this.#askForSnapshot() : this.#goOn());
            socket.onclose = (event) => end(event.reason || "the connection has ended");
            socket.onmessage = (event) => {
                this.#heardAt = performance.now();
                const reason = this.#take(JSON.parse(event.data));
                if (reason) end(reason);
            };
        });
    }

    /** Ask for a new snapshot, unless one is under way or there is no connection. */
    refresh() {
        if (this.#socket?.readyState === WebSocket.OPEN && this.#askedAt === null && !this.#isReplacing) this.#askForSnapshot();
    }

    /**
     * Read what a request has changed with the next snapshot.
     * @param {{ term: string, turns: Record<string, number> }} ack
     */
    expect({ term, turns }) {
        this.#written = { term, turns: { ...(term === this.#written.term ? this.#written.turns : {}), ...turns } };
    }

    #isSilent() {
        const isOpen = this.#socket?.readyState === WebSocket.OPEN;
        return performance.now() - this.#heardAt > (isOpen ? SILENCE_MS : CONNECT_MS);
    }

    #askForSnapshot() {
        this.#askedAt = performance.now();
        this.#subscribe({ from: "snapshot", ...this.#written });
    }

    #goOn() {
        this.#isReplacing = true;
        this.#subscribe({ from: this.last, term: this.term });
    }

    #subscribe(fields) {
        this.#socket.send(JSON.stringify({ type: "Subscribe", inParts: true, ...fields }));
    }

    /**
     * Take a message; returns why the connection has to end, if it has to.
     * @param {FeedMessage} message
     */
    #take(message) {
        switch (message.type) {
            case "SnapshotPart":
                this.#parts.push(message);
                return;
            case "Snapshot":
                return this.#onSnapshot(message);
            case "Events":
                return this.#onEvents(message.events);
            case "Bookmark":
                return this.#onBookmark(message);
            case "Lagged":
                return this.#onLagged(message);
            case "JournalStatus":
                return this.receiver.onJournal(message);
            case "ErrorResponse":
                if (message.code !== "UNAVAILABLE") this.#written = { term: "", turns: {} };
                return message.message;
        }
    }

    /** @param {Snapshot} message */
    #onSnapshot(message) {
        if (message.reason) {  // the daemon does not have the number of this term from which to go on
            this.receiver.onRestart(message.reason);
            this.last = null;
            this.#isReplacing = false;
        }
        if (this.last === null) {
            this.last = Math.max(0, message.sequence - HISTORY);
            this.term = message.term;
        }
        this.#written = { term: "", turns: {} };
        const now = performance.now();
        const tookMs = now - (this.#askedAt ?? now);
        this.#askedAt = null;
        this.receiver.onSnapshot(message, this.#parts, tookMs);
        this.#parts = [];
        if (this.last < message.sequence || this.term !== message.term) this.#goOn();
        else this.receiver.onLive();
    }

    /** @param {EventRecord[]} events */
    #onEvents(events) {
        if (this.#isReplacing) return;
        const fresh = events.filter((event) => event.sequence > this.last);
        if (fresh.length === 0) return;
        this.last = fresh.at(-1).sequence;
        this.receiver.onEvents(fresh);
    }

    /**
     * The subscription by number is confirmed with its own number; later it is told how far it is, and of another term.
     * @param {Bookmark} bookmark
     */
    #onBookmark({ sequence, term }) {
        if (this.last === null || (this.#isReplacing && sequence !== this.last)) return;
        this.#isReplacing = false;
        this.last = Math.max(this.last, sequence);
        this.term = term;
        this.receiver.onLive();
    }

    /** @param {Lagged} message */
    #onLagged(message) {
        if (this.#isReplacing) return;
        this.last = message.to;
        this.receiver.onMissing(message.from, message.to);
    }
}
