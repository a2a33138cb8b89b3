// The attempts of the tasks of a job, as the REST API has them.

import { age, amounts } from "./amounts.js";
import { textOf } from "./session.js";

/** They are asked for again at most so often, while they are shown. */
const ASK_MS = 2000;

export class Attempts {
    #of = "";
    #askedAt = -Infinity;
    #found = [];

    /** The attempts of a job, the newest first; none before the daemon has answered. */
    of(partition, job) {
        const path = `/v1/jobs/${encodeURIComponent(job)}?partition=${encodeURIComponent(partition)}`;
        if (path !== this.#of) [this.#of, this.#found, this.#askedAt] = [path, [], -Infinity];
        if (performance.now() - this.#askedAt >= ASK_MS) this.#ask(path);
        return this.#found;
    }

    async #ask(path) {
        this.#askedAt = performance.now();
        try {
            const { status, text } = await textOf(path);
            if (this.#of === path) this.#found = status === 200 ? (JSON.parse(text).attempts ?? []).reverse() : [];
        } catch {
            // The line at the top tells that the daemon does not answer.
        }
    }
}

/** The titles of the columns of the table of attempts. */
export const TITLES = ["Task", "State", "Ran", "CPU", "Peak", "Exit"];

/** An attempt as a row of that table, with a line below it: since when, where and why. */
export function attemptRow(attempt) {
    const { allocationKey, state, startTime, finishedTime, cpuTime, peakMemory, signal, exitCode } = attempt;
    const end = finishedTime || Date.now() * 1e6;
    const cells = [
        allocationKey,
        state,
        startTime ? seconds(end - startTime) : "",
        cpuTime === null ? "" : seconds(cpuTime),
        peakMemory === null ? "" : amounts({ memory: peakMemory }).replace("memory ", ""),
        signal || (exitCode === null ? "" : String(exitCode)),
    ];
    return { cells, more: moreOf(attempt), isTrouble: /Failed|TimedOut|Lost|Rejected/.test(state) };
}

function moreOf({ reason = "", nodeId = "", queueName = "", eligibleTime, startTime }) {
    const waited = eligibleTime && startTime ? `waited ${seconds(startTime - eligibleTime)}` : "";
    return [reason, nodeId && `on ${nodeId}`, queueName && `in ${queueName}`, waited].filter(Boolean).join(", ");
}

/** A duration in nanoseconds; short ones in parts of a second. */
function seconds(nanoseconds) {
    const found = Math.max(0, nanoseconds / 1e9);
    if (found < 0.1) return `${Math.round(1000 * found)}ms`;
    return found < 10 ? `${Math.round(found * 10) / 10}s` : age(found);
}
