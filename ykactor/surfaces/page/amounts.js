// Amounts in the units of the queue file, and times, as people read them.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const FIRST = ["vcore", "memory"];
const DAY_S = 86_400;

/** The amount of a type. Names of types are chosen by clients, so that one may be the name of a method. */
export const of = (amounts, type) => (amounts && Object.hasOwn(amounts, type) ? amounts[type] : 0);

/** The types, those that everybody has first. */
export const inOrder = (types) => [...types].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
const rank = (type) => (FIRST.includes(type) ? FIRST.indexOf(type) : FIRST.length);

/** An amount of one type, by the rule of the tables of the command line (`amount` in `surfaces/cli/cells.py`). */
export function amount(type, value) {
    if (type === "vcore") return threeDigits(value / 1000);
    if (!isBytes(type)) return String(value);
    let unit = 0;
    while (Math.abs(value) >= 1023.5 && unit < BINARY.length - 1) {
        value /= 1024;
        unit += 1;
    }
    return threeDigits(value) + BINARY[unit];
}

const isBytes = (type) => type === "memory" || type === "ephemeral-storage" || type.startsWith("hugepages-");
const threeDigits = (value) => String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));

/** A number of things. */
export const count = (value) => value.toLocaleString("en");

/** A number of things with their noun: `1 ask`, `2 asks`. */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A share in percent. */
export const percent = (share) => `${Math.round(100 * share)} %`;

/** Amounts in words: `vcore 2, memory 1Gi`; `none` for those that are not there. */
export function amounts(found, none = "0") {
    if (!found) return none;
    const shown = inOrder(Object.keys(found)).filter((type) => found[type] !== 0);
    return shown.map((type) => `${type} ${amount(type, found[type])}`).join(", ") || "0";
}

/** A duration: `45s`, `12m`, `7h5m`, `3d4h`. */
export function age(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 120) return `${whole}s`;
    if (whole < 7200) return `${Math.floor(whole / 60)}m`;
    if (whole < 2 * DAY_S) return `${Math.floor(whole / 3600)}h${Math.floor((whole % 3600) / 60)}m`;
    return `${Math.floor(whole / DAY_S)}d${Math.floor((whole % DAY_S) / 3600)}h`;
}

/** The time of day of a Unix time in nanoseconds. */
export const timeOfDay = (nanoseconds) => new Date(nanoseconds / 1e6).toLocaleTimeString("en-GB");

/** How long ago a Unix time in nanoseconds is. */
export const ageSince = (nanoseconds) => age(Date.now() / 1000 - nanoseconds / 1e9);

/** The priority of what has something pending. */
export const priority = (value) => (value === undefined || value === -(2 ** 31) ? "-" : String(value));
