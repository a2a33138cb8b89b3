// The order of rows.

/** So long are numbers in names when they are compared. */
const DIGITS = 15;

/** A name of which numbers count as such: `node-9` is before `node-10`. */
export const natural = (name) => name.replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0"));

/** Items by a column: `KEY`, or `-KEY` for the largest first; in their own order where no column has this key. */
export function sorted(items, columns, sort) {
    const descending = sort.startsWith("-");
    const column = columns.find(({ key, value }) => value && key === (descending ? sort.slice(1) : sort));
    if (column === undefined) return items;
    const keyed = items.map((item) => [keyOf(column.value(item)), item]);
    const sign = descending ? -1 : 1;
    return keyed.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0)).map(([, item]) => item);
}

const keyOf = (value) => (typeof value === "string" ? natural(value) : value);
