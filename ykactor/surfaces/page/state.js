// The state of the cluster: that of the last snapshot, and what events have changed since.
//
// Events carry amounts, states and what comes and goes. What they do not carry (priorities, headroom, shares of queues and nodes,
// what is held, how many asks wait and why) is that of the last snapshot. All is kept in maps: names are chosen by clients, and
// may be those of methods.

import { of } from "./amounts.js";
import { change } from "./changes.js";
/** @import { ApplicationStatus, EventRecord, NodeStatus, PartitionStatus } from "./messages" */
/** @import { QueueStatus, Snapshot, SnapshotPart } from "./messages" */

/** What comes and goes. */
const SECTIONS = ["queues", "applications", "nodes"];

/** The queues, applications and nodes of one partition. */
export class Partition {
    /**
     * @param {string} name
     * @param {Partial<PartitionStatus>} shown of a snapshot; {} for a partition that nothing is known of yet.
     */
    constructor(name, shown) {
        this.name = name;
        /** Of one that is new only what its event tells. @type {Map<string, Partial<QueueStatus>>} */
        this.queues = new Map();
        /** @type {Map<string, ApplicationStatus>} */
        this.applications = new Map();
        /** @type {Map<string, NodeStatus>} */
        this.nodes = new Map();
        /** Whether we may see what is in no queue: nodes, and the numbers of preemption (SE-84). */
        this.showsAll = shown.nodes !== undefined;
        /** @type {Partial<PartitionStatus["preemption"]>} */
        this.preemption = shown.preemption ?? {};
        this.limits = shown.limits ?? [];
        /** On which nodes tasks were placed whose application is told next. @type {Map<string, string>} */
        this.placed = new Map();
    }

    /**
     * Take over a part of a snapshot.
     * @param {SnapshotPart} part
     */
    add(part) {
        for (const section of SECTIONS)
            for (const [name, entry] of Object.entries(part[section] ?? {})) this[section].set(name, entry);
    }

    /** How many asks wait. */
    waiting() {
        let total = 0;
        for (const queue of this.queues.values()) if (queue.isLeaf) total += queue.pendingAsks ?? 0;
        return total;
    }

    /** The amount of a type that all nodes have; null if it is not shown. */
    capacity(type) {
        return this.showsAll ? of(this.queues.get("root")?.max, type) : null;
    }

    /** All types of resources that a queue or a node has. */
    types() {
        const found = new Set(["vcore", "memory"]);
        for (const node of this.nodes.values()) for (const type of Object.keys(node.capacity ?? {})) found.add(type);
        for (const queue of this.queues.values())
            for (const amounts of [queue.allocated, queue.pending, queue.max, queue.guaranteed])
                for (const type of Object.keys(amounts ?? {})) found.add(type);
        return found;
    }
}

export class State {
    constructor() {
        /** @type {Map<string, Partition>} */
        this.partitions = new Map();
        /** The number of the last event that is in it. */
        this.sequence = -1;
        /** When the last snapshot came, of performance.now(). */
        this.snapshotAt = 0;
        /** What a snapshot says of the daemon. @type {Pick<Snapshot, "resourceManager" | "standbys" | "unconfirmed">} */
        this.daemon = {};
        /** Of each section: grows when something comes or goes, so that its list has to be made again. */
        this.shape = { queues: 0, applications: 0, nodes: 0 };
    }

    /**
     * Take over a snapshot.
     * @param {Snapshot} snapshot
     * @param {SnapshotPart[]} parts what its partitions have.
     */
    replace(snapshot, parts) {
        const before = this.partitions;
        this.partitions = new Map(snapshot.partitions.map((found) => [found.name, new Partition(found.name, found)]));
        for (const part of parts) this.partitions.get(part.partition).add(part);
        const { resourceManager, standbys, unconfirmed } = snapshot;
        this.daemon = { resourceManager, standbys, unconfirmed };
        this.sequence = snapshot.sequence;
        this.snapshotAt = performance.now();
        for (const section of SECTIONS) {
            const isSame = ([name, partition]) => hasSameKeys(partition[section], before.get(name)?.[section]);
            if (![...this.partitions].every(isSame)) this.shape[section] += 1;
        }
    }

    /**
     * Take over an event, if the snapshot does not have it already.
     * @param {EventRecord} event
     */
    apply(event) {
        if (event.sequence <= this.sequence) return;
        this.sequence = event.sequence;
        const partition = this.partitions.get(event.partition);
        const section = partition && change(partition, event);
        if (section) this.shape[section] += 1;
    }
}

function hasSameKeys(map, other) {
    if (other === undefined || map.size !== other.size) return false;
    for (const key of map.keys()) if (!other.has(key)) return false;
    return true;
}
