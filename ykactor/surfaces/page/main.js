// The page: connects, keeps the state, and draws what is seen once in a frame.

import { inOrder } from "./amounts.js";
import { Applications } from "./applications.js";
import { Asks } from "./asks.js";
import { Details } from "./details.js";
import { byId, element, setText } from "./dom.js";
import { EventList } from "./eventlist.js";
import { EventLog } from "./eventlog.js";
import { Feed } from "./feed.js";
import { onNextFrame } from "./frame.js";
import { HeatMap } from "./nodes.js";
import { Preemptions } from "./preemptions.js";
import { QueueTree } from "./queues.js";
import { logOut, openSession } from "./session.js";
import { Partition, State } from "./state.js";
import { Status } from "./status.js";
import { Tabs } from "./tabs.js";
import { WaitCharts, Waits } from "./waits.js";

const TICK_MS = 500;
/** Lists are made again at most so often; their rows are always as new as they can be. */
const LIST_MS = 500;
/** The pause before a new snapshot: at least this, and so many times as long as the last one took. */
const SNAPSHOT_MS = 1000;
const SNAPSHOT_PAUSES = 9;
const NOTICE_MS = 20_000;
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15_000];

/** What all views share. */
const app = {
    state: new State(),
    partition: new Partition("", {}),
    /** The type of resource that bars show. */
    type: "vcore",
    session: null,
    feed: null,
    /** Of each section: another number when its list has to be made again. And how many snapshots there have been. */
    shape: { queues: 0, applications: 0, nodes: 0 },
    snapshots: 0,
    select: (kind, key) => details.open(kind, key),
    /** What a list shows that is empty; nothing before the first snapshot. */
    none: (text) => (app.snapshots === 0 ? "" : text),
    /** Tell something for a while; "" tells nothing any more. */
    notice(text) {
        clearTimeout(noticeTimer);
        byId("notice").hidden = !text;
        setText(byId("notice"), text);
        noticeTimer = setTimeout(() => app.notice(""), NOTICE_MS);
    },
};
let noticeTimer = 0;
const [log, waits, status, details] = [new EventLog(), new Waits(), new Status(), new Details(app)];
const views = {
    queues: new QueueTree(app),
    asks: new Asks(app),
    applications: new Applications(app),
    nodes: new HeatMap(app),
    preemptions: new Preemptions(app, log),
    waits: new WaitCharts(waits),
    events: new EventList(app, log),
};
let [snapshotSequence, refreshAt, listedAt, isLive] = [-1, 0, 0, false];

function draw() {
    if (performance.now() - listedAt >= LIST_MS) {
        app.shape = { ...app.state.shape };
        listedAt = performance.now();
    }
    status.update();
    views[tabs.panel].update();
    details.update();
}

const tabs = new Tabs(() => onNextFrame(draw));
const feed = (app.feed = new Feed({ onSnapshot, onEvents, onLive, onMissing, onRestart, onJournal }));

function onSnapshot(message, tookMs) {
    app.state.replace(message);
    app.snapshots += 1;
    snapshotSequence = message.sequence;
    refreshAt = performance.now() + Math.max(SNAPSHOT_MS, SNAPSHOT_PAUSES * tookMs);
    for (const partition of app.state.partitions.values()) waits.addSnapshot(partition);
    choosePartition(app.partition.name);
    onNextFrame(draw);
}

function onEvents(events) {
    for (const event of events) {
        if (event.sequence > snapshotSequence) app.state.apply(event);
        log.add(event);
        waits.add(event);
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
    app.notice(`The daemon was restarted or has lost events, the state is read again: ${reason}`);
}

function onJournal(found) {
    status.journal(found.writable ? "" : `the journal cannot be written, so nothing is decided: ${found.reason ?? ""}`);
}

// ---- what is chosen

function choosePartition(name) {
    const found = app.state.partitions;
    app.partition = found.get(name) ?? found.get("default") ?? found.values().next().value ?? new Partition("", {});
    offer(byId("partition"), [...found.keys()], app.partition.name);
    byId("partition-label").hidden = found.size < 2;
    const types = inOrder(app.partition.types());
    if (!types.includes(app.type)) app.type = types[0];
    offer(byId("type"), types, app.type);
    setText(byId("asks-count"), `(${app.partition.waiting()})`);
}

/** The choices of a list, made again only if they are others. */
function offer(select, choices, chosen) {
    const shown = [...select.options].map((option) => option.value);
    if (shown.join("\n") !== choices.join("\n"))
        select.replaceChildren(...choices.map((choice) => element("option", { value: choice }, choice)));
    select.value = chosen;
}

byId("partition").addEventListener("change", (event) => {
    choosePartition(event.target.value);
    onNextFrame(draw);
});
byId("type").addEventListener("change", (event) => {
    app.type = event.target.value;
    onNextFrame(draw);
});

byId("logout").addEventListener("click", logOut);

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

setInterval(tick, TICK_MS);
run();
