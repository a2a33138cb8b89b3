// The samples of a partition that the daemon keeps, one a minute of a day; and the present, so that curves end now.

import { of } from "./amounts.js";
import { textOf } from "./session.js";
/** @import { Partition } from "./state.js" */

/**
 * @typedef {{
 *     at: number, capacity?: Record<string, number>, allocated?: Record<string, number>, pending?: Record<string, number>,
 *     pendingAsks?: number, oldestWait?: number, placed?: number, waited?: number,
 * }} Sample
 */

const SAMPLES_MAX = 1440;
/** How often new ones are asked for, and how often the present is noted: more than there are in a minute would show no more. */
const ASK_MS = 20_000;
const NOTE_MS = 5000;
const NOTES_MAX = 24;
const NOT_SHOWN = "The curves are of the whole partition, which is not shown to you.";

export class Samples {
    #partition = "";
    /** The oldest first. @type {Sample[]} */
    #kept = [];
    /** Of the present, newer than all of the daemon. @type {Sample[]} */
    #noted = [];
    #askedAt = -Infinity;
    #notedAt = -Infinity;
    /** Why there are none. */
    problem = "";

    /** All, the oldest first. */
    get all() {
        const last = this.#kept.at(-1)?.at ?? 0;
        return [...this.#kept, ...this.#noted.filter(({ at }) => at > last)];
    }

    /** Forget all: the daemon has begun anew. */
    forget() {
        [this.#kept, this.#noted, this.#askedAt, this.#notedAt] = [[], [], -Infinity, -Infinity];
    }

    /**
     * Ask for new ones, and note the present, each if it is time.
     * @param {Partition} partition
     * @param {{ asks: number, since: number }} waiting how many asks wait, and since when the oldest does.
     */
    update(partition, { asks, since }) {
        if (partition.name !== this.#partition) this.forget();
        this.#partition = partition.name;
        const now = performance.now();
        if (now - this.#notedAt >= NOTE_MS && partition.showsAll) {
            this.#notedAt = now;
            const { allocated, pending, max } = partition.queues.get("root") ?? {};
            const at = Date.now() * 1e6;
            const amounts = { capacity: { ...max }, allocated: { ...allocated }, pending: { ...pending } };
            this.#noted.push({ at, ...amounts, pendingAsks: asks, oldestWait: since ? Math.max(0, (at - since) / 1e9) : 0 });
            if (this.#noted.length > NOTES_MAX) this.#noted.shift();
        }
        this.problem = partition.showsAll ? "" : NOT_SHOWN;
        if (this.problem || now - this.#askedAt < ASK_MS) return;
        this.#askedAt = now;
        this.#ask(partition.name);
    }

    async #ask(name) {
        try {
            const after = this.#kept.at(-1)?.at ?? 0;
            const { status, text } = await textOf(`/ws/v1/partition/${encodeURIComponent(name)}/history?after=${after}`);
            if (this.#partition !== name) return;
            if (status === 200) this.#kept = [...this.#kept, ...JSON.parse(text)].slice(-SAMPLES_MAX);
        } catch {
            // The line at the top tells that the daemon does not answer.
        }
    }
}

/** Columns of a chart: times in seconds, and of each line its values; null where nothing is known. */
export function useOf(samples, type) {
    return columns(samples, ({ allocated, capacity }) => [of(allocated, type), of(capacity, type) || null]);
}

export function pendingOf(samples) {
    return columns(samples, ({ pendingAsks = 0 }) => [pendingAsks]);
}

/** The mean wait of the asks that were placed since the sample before, and the longest wait of a pending one. */
export function waitsOf(samples) {
    let before = null;
    return columns(samples, ({ placed, waited = 0, oldestWait = 0 }) => {
        const count = before && placed !== undefined ? placed - before.placed : 0;
        const mean = count > 0 ? (waited - before.waited) / count : null;
        if (placed !== undefined) before = { placed, waited };
        return [mean, oldestWait];
    });
}

function columns(samples, valuesOf) {
    const rows = samples.map((sample) => [sample.at / 1e9, ...valuesOf(sample)]);
    const width = rows[0]?.length ?? 3;
    return Array.from({ length: width }, (_, index) => rows.map((row) => row[index]));
}
