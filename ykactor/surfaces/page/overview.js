// The overview: totals, curves of the last hours, why most asks wait, and what is unhealthy.

import { age, ageSince, amount, count, counted, inOrder, of, percent } from "./amounts.js";
import { newBar } from "./bar.js";
import { Curve } from "./curves.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { onNextFrame } from "./frame.js";
import { Checks, troubles } from "./health.js";
import { reasonsOf, REASONS } from "./reasons.js";
import { pendingOf, Samples, useOf, waitsOf } from "./samples.js";

const DRAW_MS = 1000;
const REASONS_MAX = 3;
const TYPES_MAX = 4;
const TROUBLES_MAX = 8;
/** Hours of the curves, by the value in the address. */
const SPANS = { "1h": 1, "6h": 6, "24h": 24 };
const HOUR_S = 3600;
/** Curves of a young daemon are this long at least. */
const SPAN_MIN_S = 300;

export class Overview {
    #drawnAt = -Infinity;
    #drawn = "";
    #known = -1;
    /** What is left to be drawn. */
    #left = [];
    #waiting = { asks: 0, since: 0, reasons: [] };

    constructor(app) {
        this.app = app;
        this.samples = new Samples();
        this.checks = new Checks();
        const main = { colour: "--accent", fill: true };
        this.use = new Curve(byId("curve-use"), [{ label: "used", ...main }, { label: "capacity", colour: "--soft" }]);
        this.pending = new Curve(byId("curve-pending"), [{ label: "pending", ...main }]);
        const longest = { label: "longest", colour: "--over" };
        this.waits = new Curve(byId("curve-waits"), [{ label: "mean of placed", ...main }, longest]);
    }

    /** Show the present state, at most once a second. */
    update() {
        const { partition, snapshots, type } = this.app;
        const wanted = `${partition.name} ${type} ${location.hash} ${snapshots > 0} ${byId("overview").clientWidth}`;
        if (wanted === this.#drawn && performance.now() - this.#drawnAt < DRAW_MS) return;
        [this.#drawn, this.#drawnAt] = [wanted, performance.now()];
        if (snapshots === 0) return;
        if (this.#known !== snapshots) this.#sumUp();
        this.#known = snapshots;
        this.samples.update(partition, this.#waiting);
        if (partition.showsAll) this.checks.update();
        this.#drawTotals();
        this.#drawReasons();
        this.#drawTroubles();
        this.#left = this.#curves();
        onNextFrame(this.#drawNext);
    }

    /** Draw one curve in each frame: all of them at once would take long. */
    #drawNext = () => {
        this.#left.shift()?.();
        if (this.#left.length > 0) onNextFrame(this.#drawNext);
    };

    #sumUp() {
        const codes = new Map();
        let [asks, since] = [0, 0];
        for (const reason of reasonsOf(this.app.partition)) {
            asks += reason.asks;
            if (reason.since && (!since || reason.since < since)) since = reason.since;
            const same = codes.get(reason.code) ?? { code: reason.code, asks: 0, applications: 0, most: reason };
            same.asks += reason.asks;
            same.applications += reason.applications;
            if (reason.asks > same.most.asks) same.most = reason;
            codes.set(reason.code, same);
        }
        this.#waiting = { asks, since, reasons: [...codes.values()].sort((a, b) => b.asks - a.asks) };
    }

    #drawTotals() {
        const { partition, address } = this.app;
        const root = partition.showsAll ? partition.queues.get("root") : undefined;
        const types = inOrder(Object.keys(root?.max ?? {})).slice(0, TYPES_MAX);
        const use = types.map((type) => {
            const [used, all] = [of(root.allocated, type), of(root.max, type)];
            const share = all > 0 ? used / all : 0;
            const more = `${amount(type, used)} of ${amount(type, all)}`;
            return { title: type, value: percent(share), more, share, href: address.to("queues", { type }) };
        });
        fit(byId("totals"), [...use, ...this.#numbers()], newTile, drawTile);
    }

    #numbers() {
        const { partition, address } = this.app;
        const isLive = ({ finishedTime, outcome }) => !finishedTime && !outcome;
        const running = [...partition.applications.values()].filter(isLive).length;
        const { asks, since } = this.#waiting;
        const oldest = `oldest waits ${ageSince(since)}`;
        const numbers = [
            { title: "Applications", value: count(running), more: "not ended", href: address.to("applications") },
            { title: "Pending asks", value: count(asks), more: asks ? oldest : "nothing waits", href: address.to("waiting") },
        ];
        const nodes = { title: "Nodes", value: count(partition.nodes.size), more: drained(partition), href: address.to("nodes") };
        return partition.showsAll ? [...numbers, nodes] : numbers;
    }

    /** What draws the curves, one after the other. */
    #curves() {
        const { address, type } = this.app;
        const all = this.samples.all;
        const span = Object.hasOwn(SPANS, address.get("span")) ? address.get("span") : "6h";
        for (const link of byId("spans").children) {
            setAttribute(link, "href", address.href({ span: link.dataset.span }));
            setAttribute(link, "aria-current", link.dataset.span === span ? "true" : null);
        }
        setText(byId("curves-notice"), this.samples.problem);
        byId("curves").hidden = this.samples.problem !== "";
        if (this.samples.problem) return [];
        const now = Date.now() / 1000;
        const oldest = Math.min((all[0]?.at ?? Infinity) / 1e9, now - SPAN_MIN_S);
        const scale = [Math.max(now - SPANS[span] * HOUR_S, oldest), now];
        setText(byId("curve-use").firstElementChild, `Use of ${type}`);
        const seconds = (value) => (value < 10 ? `${Math.round(value * 10) / 10}s` : age(value));
        return [
            () => this.use.draw(useOf(all, type), scale, type, (value) => amount(type, value)),
            () => this.pending.draw(pendingOf(all), scale, "asks", count),
            () => this.waits.draw(waitsOf(all), scale, "seconds", seconds),
        ];
    }

    #drawReasons() {
        const { asks, reasons } = this.#waiting;
        const shown = reasons.slice(0, REASONS_MAX);
        fit(byId("reasons"), shown, newReason, (row, reason) => this.#drawReason(row, reason, asks));
        setText(byId("reasons-none"), shown.length ? "" : "Nothing waits: all asks have their nodes.");
    }

    #drawReason(row, { code, asks, applications, most }, all) {
        const [link, share, more] = row.children;
        setText(link, REASONS[code] ?? code);
        setAttribute(link, "href", this.app.address.to("waiting", { reason: code }));
        share.firstElementChild.style.transform = `scaleX(${asks / all})`;
        const where = most.more ? `; most (${count(most.asks)}): ${most.more}` : "";
        setText(more, `${counted(asks, "ask")} of ${counted(applications, "application")}${where}`);
    }

    #drawTroubles() {
        const found = troubles(this.app, this.checks.failed).slice(0, TROUBLES_MAX);
        fit(byId("troubles"), found, () => element("li", {}, element("a")), (row, trouble) => {
            setText(row.firstElementChild, trouble.text);
            setAttribute(row.firstElementChild, "href", trouble.href);
            setAttribute(row, "class", trouble.isGrave ? "grave" : null);
        });
        byId("troubles-none").hidden = found.length > 0;
    }
}

function drained({ nodes }) {
    const found = [...nodes.values()].filter(({ schedulable }) => !schedulable).length;
    return found ? `${count(found)} drained` : "all schedulable";
}

const newTile = () => element("a", { class: "tile" }, element("span"), element("b"), newBar(), element("small"));

function drawTile(tile, { title, value, more, share, href }) {
    const [name, number, bar, below] = tile.children;
    setText(name, title);
    setText(number, value);
    setText(below, more);
    bar.hidden = share === undefined;
    bar.firstElementChild.style.transform = `scaleX(${Math.min(1, share ?? 0)})`;
    setAttribute(tile, "href", href);
}

const newReason = () => element("li", {}, element("a"), newBar(), element("small"));

/** Give a list one element for each item, and draw each. */
function fit(list, items, make, draw) {
    while (list.children.length < items.length) list.append(make());
    while (list.children.length > items.length) list.lastElementChild.remove();
    items.forEach((item, index) => draw(list.children[index], item));
}
