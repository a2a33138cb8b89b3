// What is chosen, in words: a queue, an application, a node or an event; and what an operator may do to it.

import { actsOf } from "./acts.js";
import { TITLES } from "./attempts.js";
import { drawTrouble } from "./cells.js";
import { byId, element, setText } from "./dom.js";
import { factsOf, isKind } from "./facts.js";

/** Drawn at most so often: of a large queue much has to be read. */
const DRAW_MS = 250;

export class Details {
    #kind = null;
    #key = null;
    #labels = "";
    #cameFrom = null;
    #drawnAt = 0;

    constructor(app) {
        this.app = app;
        this.box = byId("details");
        this.box.querySelector(".close").addEventListener("click", () => this.close());
        this.box.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    }

    /** Show what the address says: `show=KIND:NAME`. With `isFocused` the reader is taken there. */
    follow(isFocused) {
        const text = this.app.address.get("show");
        const end = text.indexOf(":");
        const kind = isKind(text.slice(0, end)) ? text.slice(0, end) : null;
        const key = kind && text.slice(end + 1);
        if (kind === this.#kind && key === this.#key) return;
        const wasOpen = this.#kind !== null;
        [this.#kind, this.#key] = [kind, key];
        this.box.hidden = kind === null;
        this.#drawnAt = 0;
        if (kind === null) return wasOpen && this.#goBack();
        if (!this.box.contains(document.activeElement)) this.#cameFrom = document.activeElement;
        this.update();
        if (isFocused) this.box.querySelector("h2").focus();
    }

    #goBack() {
        const isSeen = this.#cameFrom?.getClientRects().length > 0 && this.#cameFrom !== document.body;
        (isSeen ? this.#cameFrom : document.querySelector("#views [aria-current=page]")).focus();
    }

    close() {
        this.app.address.set({ show: "" });
    }

    /** Show the present state. */
    update() {
        if (this.#kind === null || performance.now() - this.#drawnAt < DRAW_MS) return;
        this.#drawnAt = performance.now();
        const { title, facts, lines, attempts = [] } = factsOf(this.app, this.#kind, this.#key);
        setText(this.box.querySelector("h2"), title);
        this.#showFacts(facts.filter(([, value]) => value !== undefined && value !== ""));
        this.#showLines(lines);
        this.#showAttempts(attempts);
        this.#showActs();
    }

    #showFacts(facts) {
        const list = this.box.querySelector("dl");
        fit(list, 2 * facts.length, (index) => element(index % 2 ? "dd" : "dt"));
        facts.forEach(([name, value], index) => {
            setText(list.children[2 * index], name);
            setText(list.children[2 * index + 1], String(value));
        });
    }

    #showLines(lines) {
        const list = this.box.querySelector("ul");
        fit(list, lines.length, () => element("li"));
        lines.forEach((line, index) => setText(list.children[index], line));
    }

    /** A table with two rows for each: its columns, and a line below them. */
    #showAttempts(attempts) {
        const table = this.box.querySelector("table");
        table.hidden = attempts.length === 0;
        if (table.rows.length === 0) table.createTHead().append(rowOf(TITLES.map((title) => element("th", {}, title))));
        const body = table.tBodies[0] ?? table.createTBody();
        fit(body, 2 * attempts.length, (index) => rowOf(index % 2 ? [lineBelow()] : TITLES.map(() => element("td"))));
        attempts.forEach(({ cells, more, isTrouble }, index) => {
            const [row, below] = [body.rows[2 * index], body.rows[2 * index + 1]];
            cells.forEach((text, column) => setText(row.cells[column], text));
            drawTrouble(row.cells[1], isTrouble);
            setText(below.cells[0], more);
        });
    }

    /** Buttons are made again only when there are others, so that one that has the focus keeps it. */
    #showActs() {
        const acts = actsOf(this.app, this.#kind, this.#key);
        const labels = `${this.#kind} ${this.#key} ${acts.map(({ label }) => label).join(" ")}`;
        if (labels === this.#labels) return;
        this.#labels = labels;
        const buttons = acts.map(({ label, run }) => element("button", { onclick: run }, label));
        this.box.querySelector(".actions").replaceChildren(...buttons);
    }
}

const rowOf = (cells) => element("tr", {}, ...cells);
const lineBelow = () => element("td", { class: "below", colspan: TITLES.length });

/** Give an element so many children. */
function fit(list, count, make) {
    while (list.children.length < count) list.append(make(list.children.length));
    while (list.children.length > count) list.lastElementChild.remove();
}
