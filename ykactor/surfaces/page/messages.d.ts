// What the daemon sends a follower of its feed. Made by tests/pagetypes.py from the structs of ykactor.wire.si.messages and
// ykactor.core.inspection; a test compares it with them. Quantities are base units, times Unix nanoseconds.

/** The state after the event ``sequence``; ``term``, ``instance`` and ``missing_queues`` as in ``Bookmark``. */
export interface Snapshot {
    type: "Snapshot";
    sequence: number;
    term?: string;
    instance?: string;
    reason?: string;
    missingQueues?: string[];
    partitions: PartitionStatus[];
    cycles?: Record<string, Record<string, number>>;
    resourceManager?: RegisteredResourceManager | null;
}

/** The state of a partition. Objects outside of queues are left out for readers that are limited to queues. */
export interface PartitionStatus {
    name: string;
    queues: Record<string, QueueStatus>;
    applications: Record<string, ApplicationStatus>;
    nodes?: Record<string, NodeStatus>;
    pendingAsks?: Record<string, AsksPart>;
    limits: LimitStatus[];
    predicates?: PredicatesStatus;
    preemption?: PreemptionStatus;
}

/** A queue. */
export interface QueueStatus {
    allocated: Record<string, number>;
    pending: Record<string, number>;
    priority: number;
    state: string;
    isManaged: boolean;
    max: Record<string, number> | null;
    headroom: Record<string, number> | null;
    guaranteed: Record<string, number> | null;
    actualGuaranteed: Record<string, number> | null;
    share?: number;
    maxApplications: number;
    runningApplications: number;
    isLeaf: boolean;
    sortPolicy: string;
    priorityPolicy: string;
    priorityOffset: number;
    preemptionPolicy: string;
    held?: Held;
    heldWith?: string;
    aboveMax?: AboveMaxStatus;
    quotaPreemptionStartTime?: number;
    pendingAsks?: number;
}

/** The hold of an application or a queue itself: its operator and its begin. */
export interface Held {
    by: string;
    since: number;
}

/** The amounts by which a queue is above its max, and why it stays there. */
export interface AboveMaxStatus {
    resource: Record<string, number>;
    reason: string;
}

/** An application; empty and unknown fields of an ended one are left out. */
export interface ApplicationStatus {
    state: string;
    queueName: string;
    user?: string;
    groups?: string[];
    submissionTime?: number;
    priority?: number;
    allocated?: Record<string, number>;
    pending?: PendingStatus[];
    held?: Held;
    allocations?: Record<string, string>;
    replacing?: ReplacementStatus[];
    startTime?: number;
    finishedTime?: number;
    lastWorkTime?: number;
    outcome?: string;
    reason?: string;
    usedSeconds?: Record<string, number | string>;
    lostSeconds?: Record<string, number | string>;
    records?: RecordStatus[];
    effectivePriority?: number;
    heldWith?: string;
}

/** Asks of an application that are pending for the same reason (AP-150). */
export interface PendingStatus {
    reason: string;
    code: string;
    place?: Place;
    leftOut?: Record<string, number>;
    count: number;
    priority: number;
    resource: Record<string, number>;
    allocationKeys: string[];
    creationTimes: number[];
    lastAttempt?: number | null;
    nextAttempt?: number;
    effectivePriority: number;
}

/** The place that keeps an ask back: a queue, the limit of a user or group in it, or a node that is reserved for it. */
export interface Place {
    queueName?: string;
    whose?: string;
    resource?: string;
    used?: number | null;
    max?: number | null;
    nodeId?: string;
}

/** A real ask that replaces a placeholder whose release is not confirmed: it is not pending, and does not run yet. */
export interface ReplacementStatus {
    allocationKey: string;
    placeholder: string;
    nodeID: string;
}

/** The end of a task (AP-152); unknown fields are left out. */
export interface RecordStatus {
    allocationKey: string;
    nodeID?: string;
    state: string;
    exitCode?: number;
    signal?: string;
    startTime?: number;
    finishedTime?: number;
    peakMemory?: number;
}

/** A node. */
export interface NodeStatus {
    allocated: Record<string, number>;
    allocations: string[];
    schedulable: boolean;
    occupied: Record<string, number>;
    capacity: Record<string, number>;
    available: Record<string, number>;
    reservations: string[];
    dominantShare: number;
}

/** The keys and creation times of some pending asks of an application. */
export interface AsksPart {
    applicationID: string;
    allocationKeys: string[];
    creationTimes: number[];
}

/** A limit of a user or group in a queue that applications count against. */
export interface LimitStatus {
    queue: string;
    whose: string;
    max: Record<string, number> | null;
    allocated: Record<string, number>;
    maxApplications: number;
    applications: string[];
}

/** The questions to the predicate service, and if one is connected that answers them. */
export interface PredicatesStatus {
    isAnswered: boolean;
    classes: PredicateStatus[];
}

/** A predicate class, with the numbers of nodes that were asked, passed and refused; ``allocate`` as in SC-120. */
export interface PredicateStatus {
    predicate: string;
    allocate: boolean;
    asked: number;
    passed: number;
    refused: number;
}

/** The counters of preemption, and the current numbers of attempts and victims. */
export interface PreemptionStatus {
    enabled: boolean;
    preemptions: number;
    evictions: number;
    inVain: number;
    refused: number;
    workLost: Record<string, number>;
    preemptors: number;
    victims: number;
}

/** The resource manager that serves all partitions. */
export interface RegisteredResourceManager {
    rmID: string;
    connected: boolean;
    since: number;
}

export interface Events {
    type: "Events";
    events: EventRecord[];
}

/** One event of the feed; ``event_change_type`` and ``event_change_detail`` are the SI's names. */
export interface EventRecord {
    sequence: number;
    type: string;
    objectID: string;
    eventChangeType: string;
    eventChangeDetail: string;
    timestampNano: number;
    referenceID?: string;
    message?: string;
    partition?: string;
    queueName?: string;
    resource?: Record<string, number> | null;
    preemption?: Preemption | null;
}

/** An entry of the preemption ledger (an addition to the SI): the victims of one preemption, and why they may be preempted. */
export interface Preemption {
    nodeID: string;
    kind: string;
    why: string;
    victims: PreemptionVictim[];
    sharesBefore?: Record<string, number>;
    sharesAfter?: Record<string, number>;
    rejected?: Alternative[];
    workLost?: Record<string, number>;
}

export interface PreemptionVictim {
    queueName: string;
    applicationID: string;
    allocationKey: string;
}

/** A node that was considered for the preemption, and why it was not chosen. */
export interface Alternative {
    nodeID: string;
    reason: string;
}

/** All wanted events up to ``sequence`` were sent; ``term`` is the present one of the daemon, to which this number belongs. */
export interface Bookmark {
    type: "Bookmark";
    sequence: number;
    term?: string;
    instance?: string;
    missingQueues?: string[];
}

/** The events ``from_`` to ``to`` (inclusive) are lost for this subscriber. */
export interface Lagged {
    type: "Lagged";
    from: number;
    to: number;
}

/** The queue configuration in force: the text as it was read, and its checksum (CF-12). */
export interface Configuration {
    type: "Configuration";
    config: string;
    checksum: string;
}

/** The checks of the last 30 s; the daemon is healthy if all have succeeded. */
export interface Health {
    type: "Health";
    healthy: boolean;
    checks: HealthCheck[];
    resourceManager?: RegisteredResourceManager | null;
}

/** One check; ``problem`` says what is wrong, and is "" if it has succeeded. */
export interface HealthCheck {
    name: string;
    description: string;
    problem?: string;
}

/** The use and the waiting up to now; the rows are in no order. */
export interface Usage {
    type: "Usage";
    rows: UsageRow[];
}

/** Resource-seconds of what was asked for; the other columns are empty. */
export interface UsageRow {
    day?: string;
    queue?: string;
    user?: string;
    group?: string;
    application?: string;
    allocated?: Record<string, number | string>;
    waited?: Record<string, number | string>;
    lost?: Record<string, number | string>;
}

export interface ErrorResponse {
    type: "ErrorResponse";
    sequence?: number;
    code: string;
    message: string;
    path?: string;
    id?: string;
}

/** The state of the journal: writable or not. Also sent to followers, and never numbered. */
export interface JournalStatus {
    type: "JournalStatus";
    sequence?: number;
    writable: boolean;
    sinceNano?: number;
    reason?: string;
}

export type FeedMessage = Snapshot | Events | Bookmark | Lagged | Configuration | Health | Usage | ErrorResponse | JournalStatus;
