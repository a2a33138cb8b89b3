// How long asks waited until they were placed: of all whose beginning and end this page has seen.

import { timeOfDay } from "./amounts.js";
import { byId, setText } from "./dom.js";
/** @import { EventRecord } from "./messages" */
/** @import { Partition } from "./state.js" */

/** More are forgotten, the oldest first. */
const ASKS_MAX = 200_000;
const WAITS_MAX = 20_000;
const BUCKET_S = 10;
const DRAW_MS = 1000;
/** Upper bounds in seconds of the bars of the histogram; the last bar has no bound. */
const BOUNDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800];
const LABELS = ["0.1", "0.5", "1", "5", "10", "30", "1m", "5m", "30m", "more"];

export class Waits {
    /** Since when asks wait, in nanoseconds. */
    #since = new Map();
    /** `[time of the placement, seconds waited]`, in the order of the events. */
    waits = [];
    count = 0;

    /**
     * Some asks that waited before are known from the snapshot. Of some in the map nobody has told the end: it is lost.
     * @param {Partition} partition
     */
    addSnapshot(partition) {
        if (this.#since.size > ASKS_MAX) this.#since.clear();
        for (const [name, application] of partition.applications)
            for (const { allocationKeys, creationTimes } of application.pending ?? [])
                for (const [index, since] of (creationTimes ?? []).entries())
                    this.#since.set(keyOf(partition.name, name, allocationKeys[index]), since);
    }

    /** @param {EventRecord} event */
    add(event) {
        if (event.type !== "APP") return;
        const key = keyOf(event.partition, event.objectID, event.referenceID);
        if (event.eventChangeDetail === "APP_REQUEST") {
            this.#since.set(key, event.timestampNano);
            if (this.#since.size > ASKS_MAX) this.#since.delete(this.#since.keys().next().value);
            return;
        }
        const since = this.#since.get(key);
        if (since === undefined) return;
        this.#since.delete(key);
        if (event.eventChangeDetail !== "APP_ALLOC") return;
        this.waits.push([event.timestampNano / 1e9, Math.max(0, (event.timestampNano - since) / 1e9)]);
        this.count += 1;
        if (this.waits.length > 1.2 * WAITS_MAX) this.waits = this.waits.slice(-WAITS_MAX);
    }
}

const keyOf = (partition, application, ask) => `${partition}/${application}/${ask}`;

export class WaitCharts {
    #charts = null;
    #drawnAt = -DRAW_MS;
    #drawn = -1;

    constructor(waits) {
        this.waits = waits;
        const forget = () => this.#forget();
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
        addEventListener("resize", forget);
    }

    /** Show the present state, at most once a second. */
    update() {
        if (this.waits.count === this.#drawn || performance.now() - this.#drawnAt < DRAW_MS) return;
        [this.#drawn, this.#drawnAt] = [this.waits.count, performance.now()];
        const waited = this.waits.waits.map(([, seconds]) => seconds).sort((a, b) => a - b);
        setText(byId("waits-summary"), summary(waited));
        this.#charts ??= [seriesChart(byId("wait-series")), histogramChart(byId("wait-histogram"))];
        this.#charts[0].setData(series(this.waits.waits));
        this.#charts[1].setData(histogram(waited));
    }

    /** Charts know their size and colours from the beginning only. */
    #forget() {
        for (const chart of this.#charts ?? []) chart.destroy();
        this.#charts = null;
        this.#drawn = -1;
    }
}

function summary(waited) {
    if (waited.length === 0) return "No ask was placed whose beginning this page has seen.";
    const [half, most, all] = [0.5, 0.9, 1].map((part) => waited[Math.ceil(part * waited.length) - 1].toFixed(2));
    const parts = `half waited ${half} s or less, 90 % ${most} s or less, the longest ${all} s`;
    return `Of the last ${waited.length} placed asks ${parts}.`;
}

/** Of each 10 s the median and the longest wait. */
function series(waits) {
    const buckets = new Map();
    for (const [at, seconds] of waits) {
        const bucket = Math.floor(at / BUCKET_S) * BUCKET_S;
        if (!buckets.has(bucket)) buckets.set(bucket, []);
        buckets.get(bucket).push(seconds);
    }
    const found = [...buckets].sort(([a], [b]) => a - b).map(([at, all]) => [at, all.sort((a, b) => a - b)]);
    return [found.map(([at]) => at), found.map(([, all]) => all[Math.floor(all.length / 2)]), found.map(([, all]) => all.at(-1))];
}

function histogram(waited) {
    const counts = Array(LABELS.length).fill(0);
    for (const seconds of waited) counts[(BOUNDS.findIndex((bound) => seconds <= bound) + LABELS.length) % LABELS.length] += 1;
    return [counts.map((_, index) => index), counts];
}

const colour = (host, name) => getComputedStyle(host).getPropertyValue(name);

function axes(host, labels) {
    const lines = { stroke: colour(host, "--line"), width: 1 };
    const look = { stroke: colour(host, "--ink"), grid: lines, ticks: lines };
    return [{ ...look, ...labels }, look];
}

function seriesChart(host) {
    const lines = [
        { label: "median", stroke: colour(host, "--accent"), width: 2, points: { show: true } },
        { label: "longest", stroke: colour(host, "--over"), width: 1, points: { show: true } },
    ];
    const options = { ...sizeOf(host), axes: axes(host, times), series: [{}, ...lines], scales: { y: { range: fromZero } } };
    return new window.uPlot(options, [[], [], []], host);
}

function histogramChart(host) {
    const paths = window.uPlot.paths.bars({ size: [0.8] });
    const bars = { label: "asks", fill: colour(host, "--accent"), paths, points: { show: false } };
    const labels = { values: (_, ticks) => ticks.map((tick) => LABELS[tick] ?? ""), incrs: [1] };
    const scales = { x: { time: false, range: [-0.6, LABELS.length - 0.4] }, y: { range: fromZero } };
    const series = [{ label: "up to" }, bars];
    const options = { ...sizeOf(host), axes: axes(host, labels), series, scales, legend: { show: false } };
    return new window.uPlot(options, [[], []], host);
}

const times = { values: (_, ticks) => ticks.map((tick) => timeOfDay(tick * 1e9)), space: 80 };
const fromZero = (_, __, max) => [0, max > 0 ? max * 1.1 : 1];
const sizeOf = (host) => ({ width: Math.max(200, host.clientWidth - 8), height: 260 });
