// A table of any length: only the rows that are seen exist. It is a grid for keyboards and screen readers, or a tree of rows.

import { element, setAttribute, setText } from "./dom.js";
import { onNextFrame } from "./frame.js";

const ROW_PX = 32;
/** Rows beyond those that are seen, so that scrolling shows no gaps. */
const MARGIN = 4;

export class Grid {
    #items = [];
    #rows = [];
    #active = null;
    #index = new Map();
    #seen = 0;

    /**
     * Args (in an object):
     *     host: the element that is filled; its id names the widths of the columns in the style sheet.
     *     label: for screen readers.
     *     columns: `{title, fill(cell, item), kind}`; `kind` is a class of the cells.
     *     onOpen: called with the item that was chosen, by click or Enter.
     *     tree: for a tree, `isOpen(item)` (null: nothing is below it) and `fold(item, open)`. Items have a `level` then.
     * Items have a `key`, which identifies them when they are shown again.
     */
    constructor({ host, label, columns, onOpen, tree = null }) {
        this.columns = columns;
        this.onOpen = onOpen;
        this.tree = tree;
        this.body = element("div", { class: "rows", role: "rowgroup" });
        const titles = columns.map((column) => element("span", { role: "columnheader", class: column.kind ?? "" }, column.title));
        const header = element("div", { role: "row", class: "row header", "aria-rowindex": 1 }, ...titles);
        this.empty = element("p", { class: "empty" });
        this.box = element("div", { class: "grid", role: tree ? "treegrid" : "grid", tabindex: 0, "aria-label": label });
        this.box.append(element("div", { role: "rowgroup", class: "head" }, header), this.body, this.empty);
        host.append(this.box);
        this.box.addEventListener("scroll", () => onNextFrame(this.draw));
        this.box.addEventListener("keydown", (event) => this.#onKey(event));
        this.body.addEventListener("click", (event) => this.#onClick(event));
        new ResizeObserver(([entry]) => this.#onResize(entry.contentRect.height)).observe(this.box);
    }

    /** To ask for the height in each frame would be slow; it is 0 while the grid is hidden. */
    #onResize(height) {
        this.#seen = height;
        onNextFrame(this.draw);
    }

    /** Show these items, `none` if there are none. The chosen one stays chosen. */
    show(items, none) {
        this.#items = items;
        this.#index = new Map(items.map((item, index) => [item.key, index]));
        setText(this.empty, items.length === 0 ? none : "");
        setAttribute(this.box, "aria-rowcount", items.length + 1);
        onNextFrame(this.draw);
    }

    /** The key of the chosen item; null if there is none. */
    get active() {
        return this.#active;
    }

    /** Choose an item, and bring it into view. */
    choose(key) {
        const index = this.#index.get(key);
        if (index === undefined) return;
        this.#active = key;
        const top = index * ROW_PX;
        const height = this.#seen - ROW_PX;
        if (top < this.box.scrollTop) this.box.scrollTop = top;
        else if (top + ROW_PX > this.box.scrollTop + height) this.box.scrollTop = top + ROW_PX - height;
        onNextFrame(this.draw);
    }

    /** Fill the rows that are seen. */
    draw = () => {
        if (this.#seen === 0) return;
        const height = this.#items.length * ROW_PX;
        if (this.height !== height) this.body.style.height = `${height}px`;
        this.height = height;
        const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_PX) - MARGIN);
        const count = Math.ceil(this.#seen / ROW_PX) + 2 * MARGIN;
        while (this.#rows.length < count) this.#addRow();
        for (let offset = 0; offset < this.#rows.length; offset++) {
            const index = first + offset;
            // A row keeps its place in the document while its item stays in view: readers lose nothing when others scroll in.
            const row = this.#rows[index % this.#rows.length];
            row.hidden = offset >= count || index >= this.#items.length;
            if (!row.hidden) this.#fill(row, index);
        }
        const index = this.#index.get(this.#active);
        const isSeen = index !== undefined && index >= first && index < first + count;
        setAttribute(this.box, "aria-activedescendant", isSeen ? this.#rows[index % this.#rows.length].id : null);
    };

    #addRow() {
        const cells = this.columns.map((column) => element("span", { role: "gridcell", class: column.kind ?? "" }));
        const row = element("div", { role: "row", class: "row", id: `${this.box.parentElement.id}-row-${this.#rows.length}` });
        row.append(...cells);
        this.#rows.push(row);
        this.body.append(row);
    }

    #fill(row, index) {
        const item = this.#items[index];
        row.item = item;
        const top = `translateY(${index * ROW_PX}px)`;
        if (row.style.transform !== top) row.style.transform = top;
        setAttribute(row, "aria-rowindex", index + 2);
        setAttribute(row, "aria-selected", item.key === this.#active);
        if (this.tree !== null) {
            setAttribute(row, "aria-level", item.level + 1);
            setAttribute(row, "aria-expanded", this.tree.isOpen(item));
        }
        this.columns.forEach((column, number) => column.fill(row.children[number], item));
    }

    #onClick(event) {
        const item = event.target.closest(".row")?.item;
        if (item === undefined) return;
        this.#active = item.key;
        if (event.target.classList.contains("fold")) this.tree.fold(item, !this.tree.isOpen(item));
        else this.onOpen(item);
        onNextFrame(this.draw);
    }

    #onKey(event) {
        const page = Math.max(1, Math.floor(this.#seen / ROW_PX) - 2);
        const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
        const index = this.#index.get(this.#active) ?? -1;
        const item = this.#items[index];
        if (event.key in steps && this.#items.length > 0) {
            const target = Math.min(this.#items.length - 1, Math.max(0, index + steps[event.key]));
            this.choose(this.#items[target].key);
        } else if (item !== undefined && (event.key === "Enter" || event.key === " ")) {
            this.onOpen(item);
        } else if (item === undefined || this.tree === null || !this.#onFoldKey(event.key, item, index)) {
            return;
        }
        event.preventDefault();
    }

    /** Right opens a row or goes into it, Left closes it or goes up. */
    #onFoldKey(key, item, index) {
        const isOpen = this.tree.isOpen(item);
        if (key === "ArrowRight" && isOpen === false) this.tree.fold(item, true);
        else if (key === "ArrowRight" && isOpen) this.choose(this.#items[index + 1].key);
        else if (key === "ArrowLeft" && isOpen) this.tree.fold(item, false);
        else if (key === "ArrowLeft" && item.level > 0) this.choose(this.#parent(item, index).key);
        else return false;
        return true;
    }

    #parent(item, index) {
        return this.#items.slice(0, index).findLast((other) => other.level < item.level);
    }
}
