// What is chosen, in words: a queue, an application, a node or an event; and what an operator may do to it.

import { actsOf } from "./acts.js";
import { byId, element, setText } from "./dom.js";
import { factsOf } from "./facts.js";

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

    /** Show an object: its kind, and its name, or the event itself. */
    open(kind, key) {
        if (!this.box.contains(document.activeElement)) this.#cameFrom = document.activeElement;
        [this.#kind, this.#key] = [kind, key];
        this.box.hidden = false;
        this.#drawnAt = 0;
        this.update();
        const title = this.box.querySelector("h2");
        title.tabIndex = -1;
        title.focus();
    }

    close() {
        this.#kind = null;
        this.box.hidden = true;
        const isSeen = this.#cameFrom?.getClientRects().length > 0;
        (isSeen ? this.#cameFrom : document.querySelector("#tabs [aria-selected=true]")).focus();
    }

    /** Show the present state. */
    update() {
        if (this.#kind === null || performance.now() - this.#drawnAt < DRAW_MS) return;
        this.#drawnAt = performance.now();
        const { title, facts, lines } = factsOf(this.app.partition, this.#kind, this.#key);
        setText(this.box.querySelector("h2"), title);
        this.#showFacts(facts.filter(([, value]) => value !== undefined && value !== ""));
        this.#showLines(lines);
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

/** Give an element so many children. */
function fit(list, count, make) {
    while (list.children.length < count) list.append(make(list.children.length));
    while (list.children.length > count) list.lastElementChild.remove();
}
