// The line that says whether what is shown is live: connection, number of the last event, lag.

import { announce, byId, setText } from "./dom.js";
/** @import { EventRecord } from "./messages" */

/** After so long without a word the page says so; the daemon says something every 10 s. */
const QUIET_MS = 15_000;
/** So fast two clocks may part: on a page that is open for days their difference is not taken for a lag. */
const DRIFT = 1e-4;

export class Status {
    #state = "connecting";
    #retryAt = 0;
    #reason = "";
    #heardAt = 0;
    #lagMs = 0;
    /** Why the daemon decides nothing; "" if it does. */
    #stalled = "";
    /** The least time that an event took: what our clock is ahead of the daemon's, or behind; and when an event told it last. */
    #clockMs = Infinity;
    #clockAt = 0;

    /** The state is shown as it is now. */
    live(sequence) {
        if (this.#state !== "live") announce("connected");
        this.#state = "live";
        this.#heardAt = performance.now();
        this.sequence = sequence;
    }

    /** The daemon has said that it cannot write its journal, or with "" that it can again. */
    journal(reason) {
        this.#stalled = reason;
    }

    /**
     * An event came at this moment.
     * @param {EventRecord} event
     */
    lag(event) {
        const took = Date.now() - event.timestampNano / 1e6;
        const now = performance.now();
        this.#clockMs = Math.min(this.#clockMs + DRIFT * (now - this.#clockAt), took);
        this.#clockAt = now;
        this.#lagMs = took - this.#clockMs;
    }

    /** The connection is lost; the next attempt is at `retryAt`, of performance.now(). */
    lost(reason, retryAt) {
        if (this.#state === "live") announce(`disconnected: ${reason}`);
        [this.#state, this.#reason, this.#retryAt] = ["lost", reason, retryAt];
        this.update();
    }

    update() {
        byId("status").dataset.state = this.#state;
        setText(byId("status-text"), this.#text());
        setText(byId("lag"), this.#state === "live" ? `lag ${Math.round(this.#lagMs)} ms` : "");
    }

    #text() {
        const now = performance.now();
        if (this.#state === "connecting") return "connecting";
        const left = Math.max(0, Math.ceil((this.#retryAt - now) / 1000));
        if (this.#state === "lost") return `${this.#reason}; next attempt in ${left} s`;
        if (this.#stalled) return this.#stalled;
        const quiet = now - this.#heardAt;
        if (quiet > QUIET_MS) return `no word for ${Math.round(quiet / 1000)} s`;
        return `live, event ${this.sequence.toLocaleString("en")}`;
    }
}
