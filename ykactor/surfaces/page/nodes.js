// The nodes as a heat map: a cell for each, coloured by its most used resource.

import { announce, byId, setAttribute, setText } from "./dom.js";
import { onNextFrame } from "./frame.js";

const CELL_MIN = 12;
const CELL_MAX = 56;
const GAP = 2;
/** Colours, from empty to full; page.css has them as --heat-0 and so on. */
const LEVELS = 5;
const NOT_SHOWN = "Nodes are not shown to you: what you may see is limited to queues.";
const KEYS = "Arrow keys choose one, Enter shows it.";

export class HeatMap {
    #drawn = "";
    #names = [];
    #chosen = -1;
    /** Where the pointer is. */
    #pointed = -1;
    #columns = 1;
    #cell = CELL_MAX;

    constructor(app) {
        this.app = app;
        this.box = byId("heat");
        this.canvas = this.box.querySelector("canvas");
        this.find = byId("nodes").querySelector("input");
        this.find.addEventListener("input", () => this.update());
        this.canvas.addEventListener("click", (event) => this.#open(this.#at(event)));
        this.canvas.addEventListener("pointermove", (event) => this.#point(this.#at(event)));
        this.canvas.addEventListener("pointerleave", () => this.#point(-1));
        this.box.addEventListener("focus", () => this.#onFocus());
        this.box.addEventListener("keydown", (event) => this.#onKey(event));
        new ResizeObserver(() => onNextFrame(this.update)).observe(this.box);
    }

    /** Show the present state. */
    update = () => {
        if (this.box.offsetParent === null) return;
        const wanted = `${this.app.shape.nodes} ${this.app.partition.name} ${this.find.value}`;
        if (wanted !== this.#drawn) this.#list();
        this.#drawn = wanted;
        this.#fit();
        this.#draw();
        this.#name();
    };

    /** The shown nodes in their order, of which the same one stays chosen; numbers in names count as such. */
    #list() {
        const chosen = this.#names[this.#chosen];
        const text = this.find.value.trim().toLowerCase();
        const order = new Intl.Collator("en", { numeric: true }).compare;
        this.#names = [...this.app.partition.nodes.keys()].filter((name) => name.toLowerCase().includes(text)).sort(order);
        this.#chosen = this.#names.indexOf(chosen);
    }

    /** Cells as large as there is room for. */
    #fit() {
        const width = this.box.clientWidth;
        const room = Math.sqrt((width * Math.max(200, this.box.clientHeight)) / Math.max(1, this.#names.length));
        this.#cell = Math.floor(Math.min(CELL_MAX, Math.max(CELL_MIN, room)));
        this.#columns = Math.max(1, Math.floor(width / this.#cell));
        const height = Math.max(1, Math.ceil(this.#names.length / this.#columns)) * this.#cell;
        const scale = window.devicePixelRatio;
        const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
        if (this.canvas.width !== wide || this.canvas.height !== high) {
            [this.canvas.width, this.canvas.height] = [wide, high];
            this.canvas.style.height = `${height}px`;
        }
    }

    #draw() {
        const style = getComputedStyle(this.box);
        const colours = Array.from({ length: LEVELS }, (_, level) => style.getPropertyValue(`--heat-${level}`));
        const ink = style.color;
        const context = this.canvas.getContext("2d");
        context.setTransform(window.devicePixelRatio, 0, 0, window.devicePixelRatio, 0, 0);
        context.clearRect(0, 0, this.box.clientWidth, this.canvas.height);
        context.strokeStyle = context.fillStyle = ink;
        const size = this.#cell - GAP;
        let [draining, sum] = [0, 0];
        this.#names.forEach((name, index) => {
            const node = this.app.partition.nodes.get(name);
            if (node === undefined) return;
            const [x, y] = [(index % this.#columns) * this.#cell, Math.floor(index / this.#columns) * this.#cell];
            const share = node.dominantShare;
            sum += share;
            context.fillStyle = colours[Math.min(LEVELS - 1, Math.floor(share * LEVELS))];
            context.fillRect(x, y, size, size);
            context.fillStyle = ink;
            if (node.reservations.length > 0) context.fillRect(x + size / 2 - 2, y + size / 2 - 2, 4, 4);
            if (!node.schedulable) {
                draining += 1;
                line(context, x, y + size, x + size, y);
            }
            if (index === this.#chosen) context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
        });
        setText(byId("nodes-summary"), this.#summary(sum, draining));
    }

    #summary(sum, draining) {
        if (!this.app.partition.showsAll) return this.app.none(NOT_SHOWN);
        const mean = this.#names.length ? Math.round((100 * sum) / this.#names.length) : 0;
        return `${this.#names.length} nodes, on average ${mean} % used, ${draining} draining`;
    }

    /** Cells are too small for names: the name of the one that is pointed at, or chosen by keyboard, stands above them. */
    #name() {
        const text = this.#text(this.#pointed) || this.#text(this.#chosen);
        setText(byId("nodes-name"), text);
        this.canvas.title = this.#text(this.#pointed);
        setAttribute(this.box, "aria-label", text ? `Node ${text}. ${KEYS}` : `Nodes. ${KEYS}`);
    }

    #at(event) {
        const column = Math.floor(event.offsetX / this.#cell);
        return column >= this.#columns ? -1 : Math.floor(event.offsetY / this.#cell) * this.#columns + column;
    }

    #point(index) {
        if (index === this.#pointed) return;
        this.#pointed = index;
        onNextFrame(this.update);
    }

    /** Who comes by keyboard is told where; to scroll under a pointer would open another node than the one that is clicked. */
    #onFocus() {
        if (this.box.matches(":focus-visible")) this.#choose(Math.max(0, this.#chosen));
    }

    /** Choose the node of a cell, bring it into view, and tell a screen reader. */
    #choose(index) {
        if (this.#names.length === 0) return;
        this.#chosen = Math.min(this.#names.length - 1, index);
        this.#show(Math.floor(this.#chosen / this.#columns) * this.#cell);
        announce(this.#text(this.#chosen));
        onNextFrame(this.update);
    }

    #text(index) {
        const name = this.#names[index];
        const node = this.app.partition.nodes.get(name);
        if (node === undefined) return "";
        return `${name}: ${Math.round(100 * node.dominantShare)} % used${node.schedulable ? "" : ", draining"}`;
    }

    #open(index) {
        if (index < 0 || index >= this.#names.length) return;
        this.#chosen = index;
        this.app.select("node", this.#names[index]);
        onNextFrame(this.update);
    }

    #onKey(event) {
        const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.#columns, ArrowUp: -this.#columns };
        if (event.key in steps) {
            this.#choose(Math.max(0, this.#chosen + steps[event.key]));
        } else if (event.key === "Enter" || event.key === " ") {
            this.#open(this.#chosen);
        } else {
            return;
        }
        event.preventDefault();
    }

    /** Scroll to the row of cells that begins there. */
    #show(top) {
        if (top < this.box.scrollTop) this.box.scrollTop = top;
        const bottom = top + this.#cell - this.box.clientHeight;
        if (bottom > this.box.scrollTop) this.box.scrollTop = bottom;
    }
}

function line(context, x, y, toX, toY) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
}
