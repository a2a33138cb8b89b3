// The page: connects, keeps the state, and draws what is seen once in a frame.

import { Address } from "./address.js";
import { count, inOrder } from "./amounts.js";
import { Applications } from "./applications.js";
import { Attempts } from "./attempts.js";
import { Configuration } from "./configuration.js";
import { Details } from "./details.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { EventList } from "./eventlist.js";
import { EventLog } from "./eventlog.js";
import { Feed } from "./feed.js";
import { onNextFrame } from "./frame.js";
import { Jobs } from "./jobs.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Preemptions } from "./preemptions.js";
import { QueueTree } from "./queues.js";
import { logOut, openSession } from "./session.js";
import { Partition, State } from "./state.js";
import { Status } from "./status.js";
import { Users } from "./users.js";
import { Waiting } from "./waiting.js";

const TICK_MS = 500;
/** Lists are made again at most so often; their rows are always as new as they can be. */
const LIST_MS = 500;
/** The pause before a new snapshot: at least this, and so many times as long as the last one took. */
const SNAPSHOT_MS = 1000;
const SNAPSHOT_PAUSES = 9;
const NOTICE_MS = 20_000;
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15_000];

const links = [...byId("views").children];
const names = links.map((link) => link.dataset.view);
const log = new EventLog();
const address = new Address(names, followAddress);

/** What all views share. */
const app = {
    state: new State(),
    partition: new Partition("", {}),
    /** The type of resource that bars and curves show. */
    type: "vcore",
    session: null,
    feed: null,
    address,
    log,
    /** Of each section: another number when its list has to be made again. And how many snapshots there have been. */
    shape: { queues: 0, applications: 0, nodes: 0 },
    snapshots: 0,
    select: (kind, key) => address.set({ show: `${kind}:${key}` }),
    /** What a list shows that is empty; nothing before the first snapshot. */
    none: (text) => (app.snapshots === 0 ? "" : text),
    notice,
    attempts: new Attempts(),
};
const [status, details] = [new Status(), new Details(app)];
const views = {
    overview: new Overview(app),
    queues: new QueueTree(app),
    waiting: new Waiting(app),
    jobs: new Jobs(app),
    applications: new Applications(app),
    nodes: new Nodes(app),
    users: new Users(app),
    preemptions: new Preemptions(app, log),
    configuration: new Configuration(app, log),
    events: new EventList(app, log),
};
let [snapshotSequence, refreshAt, listedAt, isLive, noticeTimer] = [-1, 0, 0, false, 0];

function draw() {
    if (performance.now() - listedAt >= LIST_MS) {
        app.shape = { ...app.state.shape };
        listedAt = performance.now();
    }
    status.update();
    views[address.view].update();
    details.update();
}

const feed = (app.feed = new Feed({ onSnapshot, onEvents, onLive, onMissing, onRestart, onJournal }));

function onSnapshot(message, parts, tookMs) {
    app.state.replace(message, parts);
    app.snapshots += 1;
    snapshotSequence = message.sequence;
    refreshAt = performance.now() + Math.max(SNAPSHOT_MS, SNAPSHOT_PAUSES * tookMs);
    choosePartition();
    onNextFrame(draw);
}

function onEvents(events) {
    for (const event of events) {
        if (event.sequence > snapshotSequence) app.state.apply(event);
        log.add(event);
    }
    if (events.at(-1).sequence > snapshotSequence) status.lag(events.at(-1));
    onLive();
}

function onLive() {
    isLive = true;
    status.live(feed.last);
    onNextFrame(draw);
}

function onMissing(from, to) {
    log.addGap(from, to);
    feed.refresh();
}

function onRestart(reason) {
    views.overview.samples.forget();
    notice(`The daemon was restarted or has lost events, the state is read again: ${reason}`);
}

function onJournal(found) {
    status.journal(found.writable ? "" : `the journal cannot be written, so nothing is decided: ${found.reason ?? ""}`);
}

/** Tell something for a while, with a button `{label, run}` if there is one; "" tells nothing any more. */
function notice(text, button = null, isTrouble = false) {
    clearTimeout(noticeTimer);
    const box = byId("notice");
    box.hidden = !text;
    setAttribute(box, "data-trouble", isTrouble ? "" : null);
    setText(box.firstElementChild, text);
    const close = element("button", { "aria-label": "Close", onclick: () => notice("") }, "✕");
    box.lastElementChild.replaceChildren(...(button ? [element("button", { onclick: button.run }, button.label)] : []), close);
    noticeTimer = setTimeout(() => notice(""), NOTICE_MS);
}

// ---- the address

/** Show the view of the address, with its filters. */
function followAddress() {
    for (const link of links) {
        const isSeen = link.dataset.view === address.view;
        setAttribute(link, "aria-current", isSeen ? "page" : null);
        setAttribute(link, "href", address.to(link.dataset.view));
        byId(link.dataset.view).hidden = !isSeen;
        if (!isSeen) continue;
        document.title = `${link.dataset.title} - ykactor`;
        const { scrollWidth, clientWidth } = link.parentElement;
        if (scrollWidth > clientWidth) link.scrollIntoView({ block: "nearest", inline: "center" });
    }
    for (const field of document.querySelectorAll("[data-value]")) {
        const value = address.get(field.dataset.value);
        if (field.value !== value) field.value = value;
    }
    choosePartition();
    details.follow(app.snapshots > 0);
    onNextFrame(draw);
}

document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link === null || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    address.go(link.getAttribute("href"));
});
for (const field of document.querySelectorAll("[data-value]"))
    field.addEventListener("input", () => address.set({ [field.dataset.value]: field.value }, field.type === "search"));
for (const name of ["partition", "type"])
    byId(name).addEventListener("change", (event) => address.set({ [name]: event.target.value }));

function choosePartition() {
    const found = app.state.partitions;
    const first = found.get("default") ?? found.values().next().value ?? new Partition("", {});
    app.partition = found.get(address.get("partition")) ?? first;
    offer(byId("partition"), [...found.keys()], app.partition.name);
    byId("partition-label").hidden = found.size < 2;
    const types = inOrder(app.partition.types());
    app.type = types.includes(address.get("type")) ? address.get("type") : types[0];
    offer(byId("type"), types, app.type);
    setText(byId("waiting-count"), app.none(count(app.partition.waiting())));
}

/** The choices of a list, made again only if they are others. */
function offer(select, choices, chosen) {
    const shown = [...select.options].map((option) => option.value);
    if (shown.join("\n") !== choices.join("\n"))
        select.replaceChildren(...choices.map((choice) => element("option", { value: choice }, choice)));
    select.value = chosen;
}

// ---- the connection

/** Ages grow without events; and reasons get old, which only a snapshot has. */
function tick() {
    const isOld = app.state.sequence > snapshotSequence && performance.now() >= refreshAt;
    if (isOld && document.visibilityState === "visible") feed.refresh();
    onNextFrame(draw);
}

/** Wait; the user comes back, or the network, is a reason to wait no longer. */
function pause(ms) {
    return new Promise((resolve) => {
        const end = () => {
            clearTimeout(timer);
            document.removeEventListener("visibilitychange", end);
            removeEventListener("online", end);
            resolve();
        };
        const timer = setTimeout(end, ms);
        document.addEventListener("visibilitychange", end);
        addEventListener("online", end);
    });
}

async function connect() {
    try {
        app.session = await openSession();
        await feed.follow(app.session);
    } catch (error) {
        return error instanceof TypeError || error.name === "TimeoutError" ? "the daemon does not answer" : error.message;
    }
}

async function run() {
    for (let attempt = 0; ; attempt += 1) {
        const reason = await connect();
        if (isLive) attempt = 0;
        isLive = false;
        const wait = BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] * (0.75 + Math.random() / 2);
        status.lost(reason, performance.now() + wait);
        await pause(wait);
    }
}

byId("logout").addEventListener("click", logOut);
followAddress();
setInterval(tick, TICK_MS);
run();
