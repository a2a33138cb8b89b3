"""What must hold between two cycles: the owners agree with each other, and the scheduler's ledger and orders with them.

Everything derived is reckoned anew from the truth (leaves and nodes) and compared. Who calls it: tests, after every
step; nothing here is cheap, and nothing here decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.messages.asks import Ask, AskID, ask_id, order_of, shape_of
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.objects.application import Application
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.parent import ParentCore
from ykactor.core.objects.registry import Roster
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.planner.scheduler import SchedulerCore
from ykactor.core.preemption.quota_clocks import gives_back
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, LineKey
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.priorities import Priority, queue_priority, sort_rank
from ykactor.core.quota.ledger import Account, Ledger, reckon_share
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import Indexes
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import QUANTITY_MAX, Resource, add_to, pruned, saturated

_FAILING = ApplicationState.FAILING
_BEGINNING = frozenset({ApplicationState.ACCEPTED, ApplicationState.STARTING})


def violations(partition: PartitionCore, scheduler: SchedulerCore, *, strict_max: bool = False) -> list[str]:
    """What does not hold, one sentence each: the object, what was found, what was expected. Empty when all is well.

    Args:
        partition, scheduler: of one partition, between two cycles and with every fact observed.
        strict_max: also demand that no queue uses more than its ``max``. The planner never leads above it, but recovered
            allocations, resizes and lowered limits may (QU-41), so only a history without these can promise it.
    Cost:   O(all asks, allocations and nodes).
    Source: SC-131, health checks 3 to 9 of section 13 of SC.
    """
    roster, indexes = partition.roster, scheduler.indexes
    return [
        *_membership(roster),
        *_allocations(roster),
        *(sentence for node in roster.nodes.values() for sentence in _node(node)),
        *_node_index(roster, indexes.nodes),
        *_reservations(indexes),
        *_preemptions(roster, indexes),
        *_applications(roster, indexes),
        *_tree(roster, indexes.ledger),
        *_usage(roster, indexes.ledger, strict_max=strict_max),
        *_trackers(roster, indexes),
        *_orders(roster, indexes),
        *_watched_lines(indexes),
        *_clocks(indexes),
    ]


def _differs(where: str, what: str, found: object, expected: object) -> Iterator[str]:
    if found != expected:
        yield f"{where}: {what} is {found}, expected {expected}"


def _sum(resources: Iterable[Resource]) -> Resource:
    """The sum without types whose value is 0."""
    total: Resource = {}
    for resource in resources:
        add_to(total, resource)
    return pruned(total)


def _leaves(roster: Roster) -> list[LeafCore]:
    return [queue for queue in roster.queues.values() if isinstance(queue, LeafCore)]


# ---- the owners among themselves


def _membership(roster: Roster) -> Iterator[str]:
    """Every application is in one leaf, the one that the roster names; every parent knows its children."""
    found: dict[ApplicationID, QueuePath] = {}
    for leaf in _leaves(roster):
        for application_id in leaf.applications:
            if application_id in found:
                yield f"application {application_id}: is in {leaf.path} and in {found[application_id]}, expected one queue"
            found[application_id] = leaf.path
    yield from _differs("partition", "the leaf of each application", roster.applications, found)
    for path, queue in roster.queues.items():
        children = {other for other in roster.queues if other.rpartition(".")[0] == path}
        known = set(queue.children) if isinstance(queue, ParentCore) else set()
        yield from _differs(f"queue {path}", "the child set", sorted(known), sorted(children))


def _allocations(roster: Roster) -> Iterator[str]:
    """Nothing runs twice, nothing runs that its application does not know, and nothing waits that runs."""
    places: dict[AskID, NodeID] = {}
    foreign: dict[str, NodeID] = {}
    for node_id, node in roster.nodes.items():
        for where in node.allocations:
            if where in places:
                yield f"allocation {where[1]} of {where[0]}: runs on {node_id} and on {places[where]}, expected one node"
            places[where] = node_id
        for key in node.foreign:
            if key in foreign:
                yield f"foreign allocation {key}: is on {node_id} and on {foreign[key]}, expected one node"
            foreign[key] = node_id
    for leaf in _leaves(roster):
        for application in leaf.applications.values():
            for key in application.asks.keys() & application.allocations.keys():
                yield f"ask {key} of {application.application_id}: waits and runs, expected one of them"
            for ask, node_id in application.allocations.values():
                on_node = roster.nodes[node_id].allocations.get(ask_id(ask)) if node_id in roster.nodes else None
                if places.pop(ask_id(ask), None) != node_id or on_node is not ask:
                    yield f"allocation {ask.spec.allocation_key} of {application.application_id}: not on its node {node_id}"
            for placeholder, (real, node_id) in application.gang.replacing.items():  # SC-131: it has its place on another node
                if node_id != application.allocations[placeholder][1] and places.pop(ask_id(real), None) != node_id:
                    yield f"ask {real.spec.allocation_key} of {application.application_id}: has no place on node {node_id}"
    for (application_id, key), node_id in places.items():
        yield f"node {node_id}: runs {key} of {application_id}, which does not know it"


def _node(node: NodeCore) -> Iterator[str]:
    """capacity = allocated + occupied + available, per type (health check 6)."""
    where = f"node {node.node_id}"
    yield from _differs(where, "allocated", pruned(node.allocated), _sum(ask.spec.resource for ask in node.allocations.values()))
    yield from _differs(where, "occupied", pruned(node.occupied), _sum(spec.resource for spec in node.foreign.values()))
    total = _sum([node.allocated, node.occupied, node.available])
    yield from _differs(where, "allocated + occupied + available", total, pruned(node.capacity))


# ---- the scheduler's nodes


def _node_index(roster: Roster, index: NodeIndex) -> Iterator[str]:
    """The index is the nodes as they are, in the order of section 8 of PR."""
    yield from _differs("node index", "the set of nodes", sorted(index.nodes), sorted(roster.nodes))
    policy = roster.config.node_sort_policy
    expected = []
    for node_id, core in roster.nodes.items():
        node = index.nodes.get(node_id)
        if node is None:
            continue
        where = f"indexed node {node_id}"
        yield from _differs(where, "available", pruned(node.available), pruned(core.available))
        yield from _differs(where, "schedulable", node.schedulable, core.schedulable)
        yield from _differs(where, "revision", node.revision, core.revision)
        score = _score(core, policy)
        yield from _differs(where, "score", node.score, score)
        if core.schedulable and not node.reserved:
            expected.append((score, node_id))
    order = [node.node_id for node in index.in_order()]
    yield from _differs("node index", "the order", order, [node_id for _, node_id in sorted(expected)])


def _score(core: NodeCore, policy: NodeSortPolicy) -> float:
    """PR-60 to PR-64."""
    used = weights = 0.0
    for name in sorted(core.capacity):
        weight = policy.resource_weights.get(name, 0.0)
        if weight > 0 and core.capacity[name]:
            used += weight * (1.0 - core.available.get(name, 0) / core.capacity[name])
            weights += weight
    utilisation = used / weights if weights else 0.0
    return utilisation if policy.type == "fair" else 1.0 - utilisation


def _reservations(indexes: Indexes) -> Iterator[str]:
    """Reserved asks wait, their nodes are large enough, and only asks that require a node share it (section 6.2 of SC)."""
    reservations = list(indexes.reservations.by_ask.values())
    kept = {(it.application_id, key): ask for _, it in indexes.waiting.values() for key, ask in it.reserving.items()}
    yield from _differs("reservations", "the asks", {ask_id(it.ask): it.ask for it in reservations}, kept)
    by_node: dict[NodeID, list[Reservation]] = {}
    for reservation in reservations:
        by_node.setdefault(reservation.node.node_id, []).append(reservation)
        node, needs = reservation.node, reservation.shape[0]
        where = f"reservation of {ask_id(reservation.ask)}"
        if indexes.nodes.nodes.get(node.node_id) is not node or not node.could_fit(needs, ()):
            yield f"{where}: on node {node.node_id}, which is gone or too small"
        if not (reservation.is_pinned() or node.schedulable or _contends(reservation.ask)):  # who preempts may keep it (SC-61)
            yield f"{where}: on node {node.node_id}, which is not schedulable"
        yield from _differs(where, "the shape", reservation.shape, shape_of(reservation.ask.spec))
    for node_id, node in indexes.nodes.nodes.items():
        there = by_node.get(node_id, [])
        yield from _differs(f"indexed node {node_id}", "reserved", node.reserved, bool(there))
        yield from _differs(f"indexed node {node_id}", "the reservations", indexes.reservations.on(node_id), there)
        if len(there) > 1 and not all(it.is_pinned() for it in there):
            yield f"indexed node {node_id}: is kept for several asks, expected one"


# ---- preemption


def _preemptions(roster: Roster, indexes: Indexes) -> Iterator[str]:
    """Victims run and were told to go; whoever they go for waits and has a node; queues count the sum (section 8 of PE)."""
    books, waiting = indexes.preemptions, indexes.waiting
    preempting: dict[Account, Resource] = {account: {} for account in indexes.ledger.accounts.values()}
    claims: dict[Account, Resource] = {account: {} for account in preempting}
    for (application_id, key), (size, _) in books.victims.items():
        where = f"victim {key} of {application_id}"
        leaf = waiting[application_id][0]
        truth = roster.leaf(leaf.path).applications[application_id]
        if key not in truth.allocations or key not in truth.gang.released:
            yield f"{where}: does not run, or was not told to go"
        else:
            yield from _differs(where, "the size", size, truth.allocations[key][0].spec.resource)
        for queue in leaf.path_up:
            add_to(preempting[queue], size)
    for identity, contest in books.by_ask.items():
        where = f"contest of {identity}"
        leaf, application = waiting[identity[0]]
        yield from _differs(where, "the application", contest.application, application)
        yield from _differs(where, "the ask", application.reserving.get(identity[1]), contest.ask)
        yield from _differs(where, "whether it is won", contest.won_ns is not None, not contest.waits_for)
        for victim in contest.waits_for:
            if victim not in books.victims or books.victims[victim][1] != identity:
                yield f"{where}: waits for {victim}, which has gone or goes for somebody else"
        pinned = shape_of(contest.ask.spec)[1] is not None
        claim = {} if pinned else {name: amount for name, amount in contest.ask.spec.resource.items() if amount > 0}
        yield from _differs(where, "the claim", contest.claim, claim)
        for queue in leaf.path_up:
            add_to(claims[queue], claim)
    for account in preempting:
        where = f"account {account.path}"
        yield from _differs(where, "preempting", pruned(account.preempting), pruned(preempting[account]))
        yield from _differs(where, "claims", pruned(account.claims), pruned(claims[account]))
        for name, amount in account.preempting.items():
            if amount > account.allocated.get(name, 0):
                yield f"{where}: is preempting {amount} {name}, more than it uses"
    waits = {(name, key) for name, (_, application) in waiting.items() for key in application.asks}
    for identity in books.attempts.keys() - waits:
        yield f"attempt of {identity}: it does not wait"
    for giver, taker, name in books.loops.circles():
        yield f"preemption: {giver} and {taker} have taken {name} from each other, expected one direction"


# ---- the scheduler's applications


def _applications(roster: Roster, indexes: Indexes) -> Iterator[str]:
    """Every live application waits in the index with exactly its asks; those with a pair of ask and placeholder are known."""
    pairs = {it for _, it in indexes.waiting.values() if it.gang is not None and it.gang.has_pair() and it.state is not _FAILING}
    known = {it for applications in indexes.replaceable.values() for it in applications} | indexes.aside.keys()
    yield from _differs("application index", "where placeholders can be replaced", known, pairs)
    for account in indexes.ledger.accounts.values():
        keeping = sorted(it.application_id for leaf, it in indexes.waiting.values() if it.holds_slot and account in leaf.path_up)
        yield from _differs(f"account {account.path}", "who keeps a slot", sorted(account.accepted), keeping)
    expected = sorted(roster.applications)
    yield from _differs("application index", "the set of applications", sorted(indexes.waiting), expected)
    for leaf in _leaves(roster):
        for application_id, application in leaf.applications.items():
            if application_id in indexes.waiting:
                account, waiting = indexes.waiting[application_id]
                yield from _differs(f"waiting application {application_id}", "the queue", account.path, leaf.path)
                fought_for = {key for owner, key in indexes.preemptions.by_ask if owner == application_id}
                yield from _application(application, waiting, fought_for)


def _key(ask: Ask) -> AllocationKey:
    return ask.spec.allocation_key


def _contends(ask: Ask) -> bool:
    """Whether an ask goes on trying to preempt although a node is kept for it, if it is not already doing so (PE-70)."""
    return ask.spec.allow_preempt_other and shape_of(ask.spec)[1] is None


def _application(application: Application, waiting: WaitingApplication, fought_for: set[AllocationKey]) -> Iterator[str]:
    """``fought_for``: its asks that others go for."""
    where = f"waiting application {application.application_id}"
    yield from _differs(where, "the state", waiting.state, application.state)
    yield from _differs(where, "the submission time", waiting.submission_ns, application.submission_ns)
    yield from _differs(where, "the registration number", waiting.arrival, application.arrival)
    allocated = _sum(ask.spec.resource for ask, _ in application.allocations.values())
    yield from _differs(where, "allocated", pruned(waiting.allocated), allocated)
    yield from _differs(where, "the set of asks", sorted(waiting.asks), sorted(application.asks))
    queued = 0
    for (shape, kind), queue in waiting.queues.items():
        asks = queue.items()
        queued += len(asks)
        if any((ask.spec.allocation_key in waiting.reserving) is not (kind == HAS_NODE) for ask in asks):
            yield f"{where}: asks with a node and without stand in one line, expected kind {kind}"
        contests = [ask for ask in asks if kind != RESERVES and not ask.spec.allow_preempt_other]
        if contests:
            yield f"{where}: {len(contests)} asks stand with those that may preempt, expected none"
        if [shape_of(ask.spec) for ask in asks] != [shape] * len(asks):
            yield f"{where}: asks of several shapes wait in one line, expected {shape}"
        if queue.told is not None:
            told = sorted(key for some in queue.told.asks for key in some)
            yield from _differs(f"{where}, asks of shape {shape}", "who was told something", told, sorted(map(_key, asks)))
        keys: list[object] = [order_of(ask) for ask in asks]
        if asks != sorted(asks, key=order_of) or queue.sort_key not in keys:
            yield f"{where}: the asks of shape {shape} are not in order"
        for ask in asks:
            key = ask.spec.allocation_key
            if application.asks.get(key) is not ask or waiting.asks.get(key) != (ask, queue):
                yield f"{where}: ask {key} in line is not the ask that waits"
    held = waiting.gang.held.items() if waiting.gang is not None else []
    aside = [key for key in waiting.reserving if waiting.asks[key][1] is None]
    settled = [key for key, ask in waiting.reserving.items() if not _contends(ask) or key in fought_for]
    yield from _differs(where, "the asks with a node that stand in no line", sorted(aside), sorted(settled))
    somewhere = queued + len(held) + len(aside)
    yield from _differs(where, "the number of asks that wait somewhere", somewhere, len(application.asks))
    yield from _gang(where, application, waiting)
    yield from _differs(where, "the priority", waiting.priorities.highest, _priority(application))
    yield from _differs(where, "the priority shown to the queue", waiting.shown_priority, _priority(application))


def _gang(where: str, application: Application, waiting: WaitingApplication) -> Iterator[str]:
    """Real asks of open groups wait for placeholders, in order; the placeholders to replace are those that nobody has ended."""
    running = application.allocations
    placeholders = {key: ask for key, (ask, _) in running.items() if ask.spec.placeholder}
    reserved = _sum(ask.spec.resource for ask in placeholders.values())
    yield from _differs(where, "what placeholders hold", pruned(waiting.reserved), reserved)
    yield from _differs(where, "the number of placeholders", application.placeholder_count, len(placeholders))
    yield from _differs(where, "the number of real allocations", application.real_count, len(running) - len(placeholders))
    gang = waiting.gang
    if gang is None:
        if placeholders:
            yield f"{where}: has placeholders and no task groups"
        return
    open_groups = {it for it in application.gang.groups if application.gang.is_open(it)}
    yield from _differs(where, "the open groups", gang.open_groups, open_groups)
    asks = application.asks.values()
    held = [ask for ask in asks if ask.spec.task_group_name in gang.open_groups and not ask.spec.placeholder]
    yield from _differs(where, "who waits for placeholders", gang.held.items(), sorted(held, key=order_of))
    free = {holder.spec.allocation_key for holders in gang.free.values() for holder, _ in holders.items()}
    yield from _differs(where, "the placeholders to replace", free, placeholders.keys() - application.gang.released)
    yield from _differs(where, "what was secured", pruned(gang.secured), pruned(application.gang.secured))


def _priority(application: Application) -> Priority:
    """PR-3."""
    return max((ask.spec.priority for ask in application.asks.values()), default=None)


# ---- the ledger


def _tree(roster: Roster, ledger: Ledger) -> Iterator[str]:
    """One account for each queue, with its settings; root's max is what the nodes offer (QU-30)."""
    yield from _differs("ledger", "the set of accounts", list(ledger.accounts), list(roster.queues))
    yield from _differs("ledger", "the number of unconfirmed charges", len(ledger.unconfirmed), 0)
    total = _sum(node.capacity for node in roster.nodes.values())
    offered = total if any(quantity > 0 for quantity in total.values()) else None
    yield from _differs("ledger", "the cluster's total", ledger.root_max, offered and saturated(offered))
    for path, account in ledger.accounts.items():
        queue = roster.queues.get(path)
        if queue is not None:
            limit = queue.config.max if account.parent else ledger.root_max
            yield from _differs(f"account {path}", "is_leaf", account.is_leaf, isinstance(queue, LeafCore))
            yield from _differs(f"account {path}", "the configuration", account.config, queue.config)
            yield from _differs(f"account {path}", "max", account.max, limit)


def _usage(roster: Roster, ledger: Ledger, *, strict_max: bool) -> Iterator[str]:
    """Usage, slots, priority and share of each queue, reckoned from its applications or its children."""
    fair_max: dict[QueuePath, Resource] = {}
    below: dict[Account, list[Account]] = {}
    for path, account in ledger.accounts.items():  # parents before children
        below[account] = []
        if account.parent is not None:
            below[account.parent].append(account)
        own = (account.max or {}) if account.parent is None or ledger.root_max else {}
        fair_max[path] = {**(fair_max[account.parent.path] if account.parent else {}), **own}
    for path, account in ledger.accounts.items():
        where = f"account {path}"
        queue = roster.queues.get(path)
        if isinstance(queue, LeafCore):
            yield from _leaf_usage(where, account, queue)
        else:
            yield from _parent_usage(where, account, below[account])
        bounds = fair_max[path] | (account.config.guaranteed or {})
        share = reckon_share(account.allocated, {name: float(quantity) for name, quantity in bounds.items()})
        yield from _differs(where, "the fair share", account.share, share)
        if strict_max:
            for name, used in account.allocated.items():
                limit = (account.max or {}).get(name, used if account.parent else 0)
                if used > limit:
                    yield f"{where}: uses {used} {name}, expected at most {limit}"


def _leaf_usage(where: str, account: Account, leaf: LeafCore) -> Iterator[str]:
    applications = leaf.applications.values()
    allocated = _sum(ask.spec.resource for it in applications for ask, _ in it.allocations.values())
    pending = _sum(ask.spec.resource for it in applications for ask in it.asks.values())
    running = sorted(it.application_id for it in applications if it.state in COUNTED_AS_RUNNING)
    raw = max((priority for it in applications if (priority := _priority(it)) is not None), default=None)
    yield from _compare(where, account, allocated, pending, running, raw)


def _parent_usage(where: str, account: Account, children: list[Account]) -> Iterator[str]:
    allocated = _sum(child.allocated for child in children)
    pending = _sum(child.pending for child in children)
    running = sorted(application_id for child in children for application_id in child.running)
    raw = max((child.priority for child in children if child.priority is not None), default=None)
    yield from _compare(where, account, allocated, pending, running, raw)


def _compare(
    where: str, account: Account, allocated: Resource, pending: Resource, running: list[ApplicationID], raw: Priority
) -> Iterator[str]:
    yield from _differs(where, "allocated", pruned(account.allocated), allocated)
    if all(quantity < QUANTITY_MAX // 2 for quantity in pending.values()):  # what was cut off does not come back (QU-1)
        yield from _differs(where, "pending", pruned(account.pending), pending)
    yield from _differs(where, "the set of running applications", sorted(account.running), running)
    yield from _differs(where, "the highest priority inside", account.priorities.highest, raw)
    yield from _differs(where, "the priority", account.priority, queue_priority(raw, account.config.properties))


def _clocks(indexes: Indexes) -> Iterator[str]:
    """Only queues of the configuration with a max and a delay have to give back (section 9.3 of CF)."""
    for account in indexes.clocks.starts:
        if indexes.ledger.accounts.get(account.path) is not account or not gives_back(account.config):
            yield f"account {account.path}: has to give back, expected none that is gone, dynamic, or without max or delay"


# ---- limits of users and groups


def _trackers(roster: Roster, indexes: Indexes) -> Iterator[str]:
    """Every application holds the trackers that the limits on its path give it, and they hold the sum of what it uses."""
    used: dict[Tracker, list[Resource]] = {tracker: [] for tracker in indexes.trackers.held.values()}
    counted: dict[Tracker, set[ApplicationID]] = {tracker: set() for tracker in used}
    holders: Counter[Tracker] = Counter()
    for account, waiting in indexes.waiting.values():
        application = roster.leaf(account.path).applications[waiting.application_id]
        where = f"waiting application {waiting.application_id}"
        names = set(_tracker_names(account, waiting)) if waiting.enrolled else set()
        yield from _differs(where, "what it counts against", {(it.path, it.whose) for it in waiting.trackers}, names)
        if waiting.counted and not application.asks and not application.allocations:
            yield f"{where}: counts although nothing of it waits or runs"
        if application.allocations and not waiting.counted:
            yield f"{where}: does not count although something of it runs"
        for tracker in waiting.trackers:
            holders[tracker] += 1
            used[tracker] += [ask.spec.resource for ask, _ in application.allocations.values()]
            if waiting.counted:
                counted[tracker].add(waiting.application_id)
    for tracker, resources in used.items():
        where = f"limit of {tracker.whose} in {tracker.path}"
        yield from _differs(where, "allocated", pruned(tracker.allocated), _sum(resources))
        yield from _differs(where, "the set of applications", set(tracker.applications), counted[tracker])
        yield from _differs(where, "the number of holders", tracker.holders_count, holders[tracker])


def _tracker_names(leaf: Account, waiting: WaitingApplication) -> Iterator[tuple[QueuePath, Principal]]:
    for account in leaf.path_up:
        users = {user for limit in account.config.limits for user in limit.users}
        groups = {group for limit in account.config.limits for group in limit.groups}
        if users & {waiting.who.user, "*"}:
            yield account.path, Principal(PrincipalKind.USER, waiting.who.user)
        if waiting.group is not None and waiting.group.group in groups:
            yield account.path, Principal(PrincipalKind.GROUP, waiting.group.group)


# ---- the orders


def _orders(roster: Roster, indexes: Indexes) -> Iterator[str]:
    """Children and applications have the places that their keys give them; whoever has nothing pending has none (PR-29)."""
    for path, account in indexes.ledger.accounts.items():
        if account.parent is not None:
            rank, place = sort_rank(account.priority), account.place
            key = (rank, account.share) if account.parent.config.properties.sort_by_priority else (account.share,)
            yield from _differs(f"account {path}", "the place", place.group_key, None if account.priority is None else key)
            if account.priority is not None:
                yield from _differs(f"account {path}", "the pending resource of its place", dict(place.vector), account.pending)
        leaf = roster.queues.get(path)
        if isinstance(leaf, LeafCore):
            there = [name for name in leaf.applications if name in indexes.waiting]
            yield from _leaf_order(account, [indexes.waiting[name][1] for name in there])


def _watched_lines(indexes: Indexes) -> Iterator[str]:
    """Lines that are looked at again for remarks are lines of their leaves, or empty and about to be forgotten."""
    for line, leaf in indexes.remarks.watched():
        if line and (leaf.applications.lines.get(line.key) is not line or indexes.ledger.accounts.get(leaf.path) is not leaf):
            yield f"account {leaf.path}: line {line.key} is watched, expected none that is over"


def _leaf_order(account: Account, applications: list[WaitingApplication]) -> Iterator[str]:
    order = account.applications
    keys = {application: order.sort_key(application) for application in applications}
    if account.config.properties.sort_policy == "stateaware":  # one application at most of those that begin (6.3 of PR)
        starting = any(application.state is ApplicationState.STARTING for application in applications)
        beginner = ApplicationState.STARTING if starting else ApplicationState.ACCEPTED
        candidates = [(key, it) for it, key in keys.items() if key is not None and it.state is beginner]
        chosen = min(candidates, default=(None, None), key=lambda candidate: candidate[0])[1]
        for application in applications:
            if application.state in _BEGINNING and application is not chosen:
                keys[application] = None
    standing: dict[LineKey, set[ApplicationID]] = {}
    for application, key in keys.items():
        where = f"waiting application {application.application_id}"
        yield from _differs(where, "the place", application.sort_key, key)
        for shape, queue in application.queues.items():
            line_key = order.line_key(application, queue, application.slots_needed())
            stands = key is not None and not application.backoff_ns
            yield from _differs(where, f"its line for {shape}", queue.line, order.lines.get(line_key) if stands else None)
            if stands:
                standing.setdefault(line_key, set()).add(application.application_id)
    yield from _differs(f"account {account.path}", "the set of lines", set(order.lines), set(standing))
    for line_key, line in order.lines.items():
        places = line.places()
        members = {application.application_id for application in places}
        yield from _differs(f"account {account.path}", f"who stands in line {line_key}", members, standing.get(line_key))
        for application, place in places.items():
            if application.sort_key is not None and place > application.sort_key:
                yield f"waiting application {application.application_id}: stands at {place}, expected {application.sort_key}"
