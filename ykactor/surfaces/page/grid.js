// A table of any length: only the rows that are seen exist. It is a grid for keyboards and screen readers, or a tree of rows.

import { element, setAttribute, setText } from "./dom.js";
import { onNextFrame } from "./frame.js";
import { sorted } from "./sorting.js";

/** Rows beyond those that are seen, so that scrolling shows no gaps. */
const MARGIN = 4;

export class Grid {
    #items = [];
    #rows = [];
    #active = null;
    #index = new Map();
    #seen = 0;
    #state = null;

    /**
     * Args (in an object):
     *     app: its address has the column by which is sorted: `sort=KEY`, or `sort=-KEY` for the largest first.
     *     host: the element that is filled; its id names the widths of the columns in the style sheet.
     *     label: for screen readers.
     *     columns: `{key, title, fill(cell, item), value(item), kind}`; `kind` is a class of the cells, and a column without
     *         `value` does not sort.
     *     linked: the key of the column whose cells are links.
     *     target: what an item leads to, by its link, a click or Enter: values of the address; null for an item without a link.
     *     onOpen: called instead with the item that was chosen, by a click or Enter.
     *     tree: for a tree, `isOpen(item)` (null: nothing is below it) and `fold(item, open)`. Items have a `level` then.
     *     rowPx: the height of a row, which the style sheet has too.
     * Items have a `key`, which identifies them when they are shown again.
     */
    constructor({ app, host, label, columns, linked, target, onOpen = null, tree = null, rowPx = 36 }) {
        Object.assign(this, { app, columns, linked, target, tree, rowPx });
        this.onOpen = onOpen ?? ((item) => app.address.set(target(item) ?? {}));
        this.body = element("div", { class: "rows", role: "rowgroup" });
        this.headers = columns.map((column) => this.#header(column));
        const header = element("div", { role: "row", class: "row header", "aria-rowindex": 1 }, ...this.headers);
        this.empty = element("p", { class: "empty" });
        this.box = element("div", { class: "grid", role: tree ? "treegrid" : "grid", tabindex: 0, "aria-label": label });
        this.box.append(element("div", { role: "rowgroup", class: "head" }, header), this.body, this.empty);
        host.append(this.box);
        this.box.addEventListener("scroll", () => onNextFrame(this.draw));
        this.box.addEventListener("keydown", (event) => this.#onKey(event));
        this.body.addEventListener("click", (event) => this.#onClick(event));
        new ResizeObserver(([entry]) => this.#onResize(entry.contentRect.height)).observe(this.box);
    }

    #header(column) {
        const made = element("span", { role: "columnheader", class: column.kind ?? "" });
        const sort = () => this.app.address.set({ sort: nextSort(this.app.address.get("sort"), column) });
        made.append(column.value ? element("button", { class: "sort", onclick: sort }, column.title) : column.title);
        return made;
    }

    /** To ask for the height in each frame would be slow; it is 0 while the grid is hidden. */
    #onResize(height) {
        this.#seen = height;
        onNextFrame(this.draw);
    }

    /** Items in the order that the address says; without one in the given order. */
    sorted(items) {
        return sorted(items, this.columns, this.app.address.get("sort"));
    }

    /** Call `list`, which shows items, if `state` is another text than when they were listed last. */
    renew(state, list) {
        if (state === this.#state) return this.draw();
        this.#state = state;
        list();
    }

    /** Let the items be listed again, whatever the state is. */
    forget() {
        this.#state = null;
    }

    /** Show these items in their order, `none` if there are none. The chosen one stays chosen. */
    show(items, none) {
        this.#items = items;
        this.#index = new Map(items.map((item, index) => [item.key, index]));
        setText(this.empty, items.length === 0 ? none : "");
        setAttribute(this.box, "aria-rowcount", items.length + 1);
        const sort = this.app.address.get("sort");
        this.columns.forEach(({ key }, number) => {
            const direction = { [key]: "ascending", [`-${key}`]: "descending" }[sort] ?? null;
            setAttribute(this.headers[number], "aria-sort", direction);
        });
        onNextFrame(this.draw);
    }

    /** Choose an item, and bring it into view. */
    choose(key) {
        const index = this.#index.get(key);
        if (index === undefined) return;
        this.#active = key;
        const top = index * this.rowPx;
        const height = this.#seen - this.rowPx;
        if (top < this.box.scrollTop) this.box.scrollTop = top;
        else if (top + this.rowPx > this.box.scrollTop + height) this.box.scrollTop = top + this.rowPx - height;
        onNextFrame(this.draw);
    }

    /** Fill the rows that are seen. */
    draw = () => {
        if (this.#seen === 0) return;
        const height = this.#items.length * this.rowPx;
        if (this.height !== height) this.body.style.height = `${height}px`;
        this.height = height;
        const first = Math.max(0, Math.floor(this.box.scrollTop / this.rowPx) - MARGIN);
        const count = Math.ceil(this.#seen / this.rowPx) + 2 * MARGIN;
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
        const cells = this.columns.map(({ key, kind }) => {
            const cell = element("span", { role: "gridcell", class: kind ?? "" });
            if (key === this.linked) cell.append(element("a", { tabindex: -1 }));
            return cell;
        });
        const row = element("div", { role: "row", class: "row", id: `${this.box.parentElement.id}-row-${this.#rows.length}` });
        row.append(...cells);
        this.#rows.push(row);
        this.body.append(row);
    }

    #fill(row, index) {
        const item = this.#items[index];
        row.item = item;
        const top = `translateY(${index * this.rowPx}px)`;
        if (row.style.transform !== top) row.style.transform = top;
        setAttribute(row, "aria-rowindex", index + 2);
        setAttribute(row, "aria-selected", item.key === this.#active);
        if (this.tree !== null) {
            setAttribute(row, "aria-level", item.level + 1);
            setAttribute(row, "aria-expanded", this.tree.isOpen(item));
        }
        this.columns.forEach((column, number) => {
            const cell = row.children[number];
            const link = column.key === this.linked ? cell.firstElementChild : null;
            if (link !== null) setAttribute(link, "href", this.#hrefOf(item));
            column.fill(link ?? cell, item);
        });
    }

    #hrefOf(item) {
        const values = this.target(item);
        return values && this.app.address.href(values);
    }

    /** A link that is opened elsewhere, by a key or the middle button, is left to the browser. */
    #onClick(event) {
        const item = event.target.closest(".row")?.item;
        if (item === undefined || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.#active = item.key;
        if (event.target.classList.contains("fold")) this.tree.fold(item, !this.tree.isOpen(item));
        else this.onOpen(item);
        onNextFrame(this.draw);
    }

    #onKey(event) {
        if (event.target !== this.box) return;
        const page = Math.max(1, Math.floor(this.#seen / this.rowPx) - 2);
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

/** The order after a click on a header: numbers begin with the largest, and the third click ends the order. */
function nextSort(sort, { key, kind = "" }) {
    const [first, second] = kind.includes("number") || kind.includes("usage") ? [`-${key}`, key] : [key, `-${key}`];
    return { [first]: second, [second]: "" }[sort] ?? first;
}
