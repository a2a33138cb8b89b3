// Charts of lines over time.

import { timeOfDay } from "./amounts.js";

const HEIGHT = 160;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Curve {
    #chart = null;
    #width = 0;
    #type = "";

    /**
     * @param {HTMLElement} host
     * @param {{ label: string, colour: string, fill?: boolean }[]} lines
     */
    constructor(host, lines) {
        this.host = host;
        this.lines = lines;
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#forget());
    }

    /**
     * Draw these columns.
     * @param {(number | null)[][]} data
     * @param {string} kind of the values: another one has other words on the axis.
     * @param {(value: number) => string} words of a value.
     */
    draw(data, [from, to], kind, words) {
        const width = this.host.clientWidth;
        if (width === 0) return;
        if (width !== this.#width || kind !== this.#type) this.#forget();
        [this.#width, this.#type] = [width, kind];
        this.#chart ??= this.#make(width, words);
        this.#chart.setData(data, false);
        this.#chart.setScale("x", { min: from, max: to });
        if (this.#chart.cursor.idx == null) this.#chart.setLegend({ idx: data[0].length - 1 });
    }

    /** Charts know their size and colours from the beginning only. */
    #forget() {
        this.#chart?.destroy();
        this.#chart = null;
    }

    #make(width, words) {
        const grid = { stroke: colour("--line"), width: 1 };
        const look = { stroke: colour("--soft"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
        const across = { ...look, grid: { show: false }, space: 70, size: 30, values: times };
        const axes = [across, { ...look, size: 58, values: (_, ticks) => ticks.map(words) }];
        const series = this.lines.map((line) => ({
            label: line.label,
            stroke: colour(line.colour),
            fill: line.fill ? `color-mix(in srgb, ${colour(line.colour)} 14%, transparent)` : undefined,
            width: 2,
            points: { show: false },
            value: (_, value) => (value === null || value === undefined ? "-" : words(value)),
        }));
        const first = { label: "at", value: (_, at) => (at === null ? "-" : timeOfDay(at * 1e9)) };
        const scales = { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } };
        const cursor = { drag: { x: false, y: false }, points: { size: 7 } };
        const options = { width, height: HEIGHT, axes, scales, cursor, series: [first, ...series] };
        return new window.uPlot(options, [[], ...series.map(() => [])], this.host);
    }
}

const times = (_, ticks) => ticks.map((tick) => timeOfDay(tick * 1e9).slice(0, -3));
