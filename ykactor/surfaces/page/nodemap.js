// The nodes as a map: a cell for each, darker the more it is used. Red is only what is in trouble.

import { percent } from "./amounts.js";
import { announce, setAttribute } from "./dom.js";
import { onNextFrame } from "./frame.js";
import { isOver, wordsOf } from "./health.js";

/** A cell has a name if there is room for cells of this size, or else is a square between these sizes. */
const NAMED = { width: 132, height: 40 };
const [SQUARE_MIN, SQUARE_MAX] = [12, 28];
const NAMED_MIN = 60;
const GAP = 3;
const HEADING_PX = 26;
/** Shades, from empty to full; page.css has them as --use-0 and so on. */
const LEVELS = 6;
const KEYS = "Arrow keys choose one, Enter shows it.";

export class NodeMap {
    /** `{heading, names, top, first}`; the cells of a group begin below `top`. */
    #groups = [];
    #names = [];
    #chosen = -1;
    #pointed = -1;
    #columns = 1;
    #cell = NAMED;
    #by = "";
    #height = 0;

    constructor(app, box) {
        [this.app, this.box, this.canvas] = [app, box, box.querySelector("canvas")];
        this.canvas.addEventListener("click", (event) => this.#open(this.#at(event)));
        this.canvas.addEventListener("pointermove", (event) => this.#point(this.#at(event)));
        this.canvas.addEventListener("pointerleave", () => this.#point(-1));
        box.addEventListener("focus", () => box.matches(":focus-visible") && this.#choose(Math.max(0, this.#chosen)));
        box.addEventListener("keydown", (event) => this.#onKey(event));
        new ResizeObserver(() => onNextFrame(this.draw)).observe(box);
    }

    /** Show these groups of names, of which the chosen one stays chosen; `by` is the attribute, "" without headings. */
    show(groups, by) {
        const chosen = this.#names[this.#chosen];
        this.#by = by;
        const headingOf = (value, names) => by && `${by}=${value}: ${names.length}`;
        this.#groups = groups.map(([value, names]) => ({ heading: headingOf(value, names), names, top: 0, first: 0 }));
        this.#names = groups.flatMap(([, names]) => names);
        this.#chosen = this.#names.indexOf(chosen);
    }

    /** Draw the present state. */
    draw = () => {
        if (this.box.clientWidth === 0) return;
        this.#fit();
        const style = getComputedStyle(this.box);
        const look = {
            ink: style.color,
            soft: style.getPropertyValue("--soft"),
            trouble: style.getPropertyValue("--full"),
            shades: Array.from({ length: LEVELS }, (_, level) => style.getPropertyValue(`--use-${level}`)),
            inks: Array.from({ length: LEVELS }, (_, level) => style.getPropertyValue(`--on-use-${level}`)),
        };
        const context = this.canvas.getContext("2d");
        const scale = window.devicePixelRatio;
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, this.box.clientWidth, this.#height);
        context.textBaseline = "middle";
        for (const band of this.#groups) this.#drawGroup(context, look, band);
        this.#name();
    };

    /** Cells with names if all have room; else squares, as large as there is room for. */
    #fit() {
        const [width, height] = [this.box.clientWidth - 2, Math.max(200, this.box.clientHeight)];
        const count = Math.max(1, this.#names.length);
        const named = Math.max(1, Math.floor(width / NAMED.width));
        const side = Math.floor(Math.min(SQUARE_MAX, Math.max(SQUARE_MIN, Math.sqrt((width * height) / count))));
        const isNamed = Math.ceil(count / named) * NAMED.height <= 2 * height;
        this.#cell = isNamed ? { width: Math.floor(width / named), height: NAMED.height } : { width: side, height: side };
        this.#columns = Math.max(1, Math.floor(width / this.#cell.width));
        let [top, first] = [0, 0];
        for (const band of this.#groups) {
            Object.assign(band, { top: top + (this.#by ? HEADING_PX : 0), first });
            first += band.names.length;
            top = band.top + Math.ceil(band.names.length / this.#columns) * this.#cell.height + (this.#by ? GAP : 0);
        }
        this.#height = Math.max(1, top);
        const scale = window.devicePixelRatio;
        const [wide, high] = [Math.round(this.box.clientWidth * scale), Math.round(this.#height * scale)];
        if (this.canvas.width !== wide || this.canvas.height !== high) {
            [this.canvas.width, this.canvas.height] = [wide, high];
            this.canvas.style.height = `${this.#height}px`;
        }
    }

    #drawGroup(context, look, { heading, names, top, first }) {
        if (heading) {
            context.fillStyle = look.soft;
            context.font = "600 12px system-ui, sans-serif";
            context.fillText(heading, 0, top - HEADING_PX / 2);
        }
        names.forEach((name, index) => {
            const node = this.app.partition.nodes.get(name);
            const x = (index % this.#columns) * this.#cell.width;
            const y = top + Math.floor(index / this.#columns) * this.#cell.height;
            if (node !== undefined) this.#drawNode(context, look, name, node, x, y, first + index === this.#chosen);
        });
    }

    #drawNode(context, look, name, node, x, y, isChosen) {
        const [width, height] = [this.#cell.width - GAP, this.#cell.height - GAP];
        const level = Math.min(LEVELS - 1, Math.floor(node.dominantShare * LEVELS));
        const ink = isOver(node) ? "#ffffff" : look.inks[level];
        context.fillStyle = isOver(node) ? look.trouble : look.shades[level];
        if (width > NAMED_MIN) fillRound(context, x, y, width, height);
        else context.fillRect(x, y, width, height);
        context.strokeStyle = context.fillStyle = ink;
        if (width > NAMED_MIN) this.#drawText(context, name, node, x, y, width, height);
        if (node.reservations.length > 0) context.fillRect(x + width - 7, y + 3, 4, 4);
        if (!node.schedulable && width <= NAMED_MIN) line(context, x + 2, y + height - 2, x + Math.min(width, height) - 2, y + 2);
        if (!isChosen) return;
        context.strokeStyle = look.ink;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, width - 2, height - 2);
        context.lineWidth = 1;
    }

    #drawText(context, name, node, x, y, width, height) {
        const room = width - 12;
        context.font = "12px system-ui, sans-serif";
        const most = Math.floor(room / 6.6);
        context.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, x + 6, y + height / 2 - 7, room);
        context.font = "11px system-ui, sans-serif";
        const words = percent(node.dominantShare) + (node.schedulable ? "" : ", drained");
        context.fillText(words, x + 6, y + height / 2 + 8, room);
    }

    #name() {
        const text = this.#text(this.#pointed) || this.#text(this.#chosen);
        setAttribute(this.canvas, "title", this.#text(this.#pointed));
        setAttribute(this.box, "aria-label", text ? `Node ${text}. ${KEYS}` : `Nodes. ${KEYS}`);
    }

    #text(index) {
        const name = this.#names[index];
        return name === undefined ? "" : wordsOf(name, this.app.partition.nodes.get(name));
    }

    /** The number of the cell at a place; -1 without one. */
    #at({ offsetX, offsetY }) {
        const band = this.#groups.findLast(({ top }) => offsetY >= top);
        const column = Math.floor(offsetX / this.#cell.width);
        if (band === undefined || column >= this.#columns) return -1;
        const index = Math.floor((offsetY - band.top) / this.#cell.height) * this.#columns + column;
        return index < band.names.length ? band.first + index : -1;
    }

    #point(index) {
        if (index === this.#pointed) return;
        this.#pointed = index;
        this.canvas.style.cursor = index < 0 ? "" : "pointer";
        onNextFrame(this.draw);
    }

    /** Choose the node of a cell, bring it into view, and tell a screen reader. */
    #choose(index) {
        if (this.#names.length === 0) return;
        this.#chosen = Math.min(this.#names.length - 1, index);
        const band = this.#groups.findLast(({ first }) => first <= this.#chosen);
        const top = band.top + Math.floor((this.#chosen - band.first) / this.#columns) * this.#cell.height;
        if (top < this.box.scrollTop) this.box.scrollTop = top;
        const bottom = top + this.#cell.height - this.box.clientHeight;
        if (bottom > this.box.scrollTop) this.box.scrollTop = bottom;
        announce(this.#text(this.#chosen));
        onNextFrame(this.draw);
    }

    #open(index) {
        if (index < 0) return;
        this.#chosen = index;
        this.app.select("node", this.#names[index]);
        onNextFrame(this.draw);
    }

    #onKey(event) {
        const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.#columns, ArrowUp: -this.#columns };
        if (event.key in steps) this.#choose(Math.max(0, this.#chosen + steps[event.key]));
        else if (event.key === "Enter" || event.key === " ") this.#open(this.#chosen);
        else return;
        event.preventDefault();
    }
}

function fillRound(context, x, y, width, height) {
    context.beginPath();
    context.roundRect(x, y, width, height, 3);
    context.fill();
}

function line(context, x, y, toX, toY) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
}
