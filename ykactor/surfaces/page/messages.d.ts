// What the daemon sends a follower of its feed. Made by tests/pagetypes.py from the structs of ykactor.wire.si.messages and
// ykactor.core.inspection; a test compares it with them. Quantities are base units, times Unix nanoseconds.

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
    standbys?: StandbysStatus;
    unconfirmed?: UnconfirmedStatus;
}

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
    walltimeDefault?: number;
    walltimeMax?: number;
    held?: Held;
    heldWith?: string;
    aboveMax?: AboveMaxStatus;
    quotaPreemptionStartTime?: number;
    pendingAsks?: number;
}

export interface Held {
    by: string;
    since: number;
}

export interface AboveMaxStatus {
    resource: Record<string, number>;
    reason: string;
}

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
    job?: JobStatus;
    effectivePriority?: number;
    heldWith?: string;
}

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
    oldestTime: number;
    lastAttempt?: number | null;
    nextAttempt?: number;
    effectivePriority: number;
}

export interface Place {
    queueName?: string;
    whose?: string;
    resource?: string;
    used?: number | null;
    max?: number | null;
    nodeId?: string;
}

export interface ReplacementStatus {
    allocationKey: string;
    placeholder: string;
    nodeID: string;
}

export interface RecordStatus {
    allocationKey: string;
    nodeID?: string;
    state: string;
    exitCode?: number;
    signal?: string;
    startTime?: number;
    finishedTime?: number;
    peakMemory?: number;
    eligibleTime?: number;
    cpuTime?: number;
    reason?: string;
    queueName?: string;
}

export interface JobStatus {
    name: string;
    tasks: number;
    completed: number;
    failed: number;
    cancelled: number;
}

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

export interface AsksPart {
    applicationID: string;
    allocationKeys: string[];
    creationTimes: number[];
}

export interface LimitStatus {
    queue: string;
    whose: string;
    max: Record<string, number> | null;
    allocated: Record<string, number>;
    maxApplications: number;
    applications: string[];
}

export interface PredicatesStatus {
    isAnswered: boolean;
    classes: PredicateStatus[];
}

export interface PredicateStatus {
    predicate: string;
    allocate: boolean;
    asked: number;
    passed: number;
    refused: number;
}

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

export interface RegisteredResourceManager {
    rmID: string;
    connected: boolean;
    since: number;
}

export interface StandbysStatus {
    wanted: number;
    transaction: number;
    aloneSince: number;
    goesOn: boolean;
    connected: StandbyStatus[];
}

export interface StandbyStatus {
    name: string;
    origin: string;
    transaction: number;
    behind: number;
    behindSeconds: number;
    counts: boolean;
}

export interface UnconfirmedStatus {
    checksum: string;
    replaced: string;
    who: string;
    since: number;
    until: number;
    problem: string;
}

export interface SnapshotPart {
    type: "SnapshotPart";
    partition: string;
    queues?: Record<string, QueueStatus>;
    applications?: Record<string, ApplicationStatus>;
    nodes?: Record<string, NodeStatus>;
    pendingAsks?: Record<string, AsksPart>;
}

export interface Events {
    type: "Events";
    events: EventRecord[];
}

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
    waited?: Record<string, number> | null;
}

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

export interface Alternative {
    nodeID: string;
    reason: string;
}

export interface Bookmark {
    type: "Bookmark";
    sequence: number;
    term?: string;
    instance?: string;
    missingQueues?: string[];
}

export interface Lagged {
    type: "Lagged";
    from: number;
    to: number;
}

export interface Configuration {
    type: "Configuration";
    config: string;
    checksum: string;
    unconfirmed?: UnconfirmedStatus;
}

export interface Health {
    type: "Health";
    healthy: boolean;
    checks: HealthCheck[];
    resourceManager?: RegisteredResourceManager | null;
    standbys?: StandbysStatus;
}

export interface HealthCheck {
    name: string;
    description: string;
    problem?: string;
}

export interface Usage {
    type: "Usage";
    rows: UsageRow[];
}

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

export interface Explanation {
    type: "Explanation";
    status?: string;
    ask?: AskExplanation | null;
    queue?: QueueExplanation | null;
    node?: NodeExplanation | null;
    changes?: Search;
}

export interface AskExplanation {
    partitionName: string;
    applicationID: string;
    allocationKey: string;
    user: string;
    queueName: string;
    code: string;
    reason: string;
    time: number;
    creationTime: number;
    waited: Record<string, number>;
    priority: number;
    resource: Record<string, number>;
    position: number;
    waiting: number;
    levels: LevelStatus[];
    binding?: number;
    nodes?: Record<string, number>;
    ahead: AheadStatus[];
    aheadCount: number;
}

export interface LevelStatus {
    queueName: string;
    whose: string;
    resource: string;
    used?: number;
    max?: number;
    wants?: number;
    code: string;
    reason: string;
    since?: number;
}

export interface AheadStatus {
    queueName: string;
    applicationID?: string;
    by: string;
    value: string;
    own: string;
}

export interface QueueExplanation {
    partitionName: string;
    queueName: string;
    status: QueueStatus;
    pending: Record<string, number>;
    oldest?: OldestStatus;
    short?: ShortStatus;
    users: UserShare[];
    otherUsers: number;
    othersUse: number;
}

export interface OldestStatus {
    applicationID: string;
    allocationKey: string;
    creationTime: number;
    code: string;
    reason: string;
}

export interface ShortStatus {
    queueName: string;
    whose: string;
    resource: string;
    used?: number;
    max?: number;
    asks: number;
}

export interface UserShare {
    user: string;
    amount: number;
}

export interface NodeExplanation {
    partitionName: string;
    nodeID: string;
    status: NodeStatus;
    pending: Record<string, number>;
    keptBack: Record<string, number>;
    fitting: FittingStatus[];
    fittingCount: number;
}

export interface FittingStatus {
    queueName: string;
    applicationID: string;
    asks: number;
    resource: Record<string, number>;
    code: string;
    reason: string;
}

export interface Search {
    found: Found[];
    isEnded: boolean;
    tries: number;
    reason: string;
    others: number;
}

export interface Found {
    changes: (Raise | Resize | Prioritise | DropTerm | Free | AddNode | Undrain | EndHold | Wait)[];
    nodeID: string;
    atNs: number;
    isLeast: boolean;
    tooLittle: number | null;
}

export interface Raise {
    type: "Raise";
    queueName: string;
    whose: string;
    resource: string;
    before: number;
    after: number;
    isDynamic: boolean;
}

export interface Resize {
    type: "Resize";
    resource: string;
    before: number;
    after: number;
}

export interface Prioritise {
    type: "Prioritise";
    before: number;
    after: number;
}

export interface DropTerm {
    type: "DropTerm";
    term: string;
    index: number | null;
}

export interface Free {
    type: "Free";
    nodeID: string;
    tasks: [string, string][];
    lostNs: number;
}

export interface AddNode {
    type: "AddNode";
    like: string;
}

export interface Undrain {
    type: "Undrain";
    nodeID: string;
}

export interface EndHold {
    type: "EndHold";
    queueName: string;
}

export interface Wait {
    type: "Wait";
    seconds: number;
    task: [string, string] | null;
    nodeID: string;
}

export interface ErrorResponse {
    type: "ErrorResponse";
    sequence?: number;
    code: string;
    message: string;
    path?: string;
    id?: string;
}

export interface JournalStatus {
    type: "JournalStatus";
    sequence?: number;
    writable: boolean;
    sinceNano?: number;
    reason?: string;
}

export type FeedMessage = Snapshot | SnapshotPart | Events | Bookmark | Lagged | Configuration | Health | Usage | Explanation | ErrorResponse | JournalStatus;
