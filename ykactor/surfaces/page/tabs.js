// The tabs: one panel is seen at a time, and its name is in the address, so that it can be bookmarked.

import { byId } from "./dom.js";

export class Tabs {
    /** `onChange` is called when another panel is seen. */
    constructor(onChange) {
        this.onChange = onChange;
        this.tabs = [...byId("tabs").children];
        for (const tab of this.tabs) tab.addEventListener("click", () => this.open(panelOf(tab)));
        byId("tabs").addEventListener("keydown", (event) => this.#onKey(event));
        addEventListener("hashchange", () => this.#follow());
        this.#follow();
    }

    /** Show a panel. */
    open(panel) {
        location.hash = panel;
        this.#follow();
    }

    #follow() {
        const wanted = location.hash.slice(1);
        const tab = this.tabs.find((other) => panelOf(other) === wanted) ?? this.tabs[0];
        for (const other of this.tabs) {
            other.setAttribute("aria-selected", other === tab);
            other.tabIndex = other === tab ? 0 : -1;
            byId(panelOf(other)).hidden = other !== tab;
        }
        this.panel = panelOf(tab);
        this.onChange();
    }

    #onKey(event) {
        const index = this.tabs.findIndex((tab) => panelOf(tab) === this.panel);
        const wanted = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 }[event.key];
        if (wanted === undefined) return;
        const next = this.tabs.at(wanted % this.tabs.length);
        this.open(panelOf(next));
        next.focus();
        event.preventDefault();
    }
}

const panelOf = (tab) => tab.getAttribute("aria-controls");
