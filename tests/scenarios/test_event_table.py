"""Every row of the tables of events (EV-69 to EV-74) has a scenario that produces its records, each as often as it should.

``ROWS`` has the rows of the rule page. A row without a scenario fails, and so does a scenario in which a record is missing,
is there twice, or has another object, reference, message or resource.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from samplefacts import Row, rows
from world import (
    World,
    answer,
    answering,
    app,
    ask,
    configure,
    foreign,
    hold,
    limit,
    make_world,
    move,
    node,
    prioritise,
    queue,
    release,
    remove,
    template,
    terminate,
    tree,
)

import ykactor
from ykactor.core.messages.acts import Act, Administration
from ykactor.core.messages.facts import Audited, PartitionFailed
from ykactor.core.messages.kinds import Consequence, NodeAction
from ykactor.core.messages.submissions import RefuseConfig, RemovePartition, Submission, UpdateNode
from ykactor.core.values.ids import NodeID
from ykactor.wire.si.kinds import EVENT_KINDS

PAGE = Path(ykactor.__file__).parent / "rules" / "events.md"
#: The rules that are tables of events, and what their rows are about.
TABLES = {
    "EV-69": "APP",
    "EV-70": "cause",
    "EV-71": "REQUEST",
    "EV-72": "NODE",
    "EV-73": "QUEUE",
    "EV-74": "USERGROUP",
    "EV-75": "AUDIT",
}

Scenario = Callable[[], World]
Case = tuple[Scenario, list[Row]]

PLAIN = tree(queue("a"))
N1 = node("n1", vcore=4)
ONE, TWO, FOUR = {"vcore": 1}, {"vcore": 2}, {"vcore": 4}


def attributes(**replaced: str) -> Submission:
    """Other attributes of n1."""
    return UpdateNode(NodeID("n1"), NodeAction.UPDATE, None, replaced)


def of_app(change: str, detail: str, key: str = "", resource: dict[str, int] | None = None, *, message: str = "") -> Row:
    return "APP", "app-1", change, detail, key, message, resource


def of_state(detail: str, message: str = "") -> Row:
    return of_app("SET", detail, message=message)


def of_node(
    change: str, detail: str, key: str = "", resource: dict[str, int] | None = None, *, message: str = "", at: str = "n1"
) -> Row:
    return "NODE", at, change, detail, key, message, resource


def of_queue(
    path: str, change: str, detail: str, reference: str = "", *, message: str = "", resource: dict[str, int] | None = None
) -> Row:
    return "QUEUE", path, change, detail, reference, message, resource


def of_name(name: str, change: str, detail: str, reference: str, resource: dict[str, int] | None = None) -> Row:
    return "USERGROUP", name, change, detail, reference, "", resource


def of_request(key: str, message: str, resource: dict[str, int], application: str = "app-1") -> Row:
    return "REQUEST", key, "NONE", "DETAILS_NONE", application, message, resource


def records(world: World, start: int = 0) -> list[Row]:
    """All records since the ``start``-th fact, in order."""
    return [row for fact in world.facts[start:] for row in rows(fact)]


# ---- scenarios


def played(text: str, *steps: tuple[float, Submission]) -> Scenario:
    """One node of 4 and these submissions at their seconds."""

    def play() -> World:
        world = make_world(text, [N1])
        for at, submission in steps:
            world.send(submission, at=at)
        return world

    return play


def on_plain(*submissions: Submission, text: str = PLAIN) -> Scenario:
    """Submissions second by second."""
    return played(text, *enumerate(submissions))


APP, T1, T2 = app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=2)
runs = on_plain(APP, T1)
ends = played(PLAIN, (0, APP), (0, T1), (1, ask("t2", "app-1", vcore=2)), (2, release("t1")), (3, release("t2")), (40, N1))
expires = played(PLAIN, (0, APP), (0, T1), (1, release("t1")), (300_000, N1))
rejected = on_plain(app("app-1", "root.x", user="a b"))
recovers = on_plain(APP, ask("t1", "app-1", on="n1", vcore=1))
waits = on_plain(APP, ask("t1", "app-1", vcore=9))


def gang(style: str, **total: int) -> Submission:
    return app("app-1", style=style, placeholders=total, timeout_ms=10_000)


def placeholder(key: str, **resource: int) -> Submission:
    return ask(key, "app-1", group="g", placeholder=True, **resource)


def real(key: str, **resource: int) -> Submission:
    return ask(key, "app-1", group="g", **resource)


replaces = on_plain(gang("Soft", vcore=1), placeholder("p1", vcore=1), real("t1", vcore=1))
placed_by_rm = on_plain(APP, ask("t1", "app-1", vcore=9), ask("t1", "app-1", on="n1", vcore=9))
grows = on_plain(gang("Soft", vcore=1), placeholder("p1", vcore=1), real("t1", vcore=2))
soft = played(PLAIN, (0, gang("Soft", vcore=9)), (0, placeholder("p1", vcore=1)), (0, placeholder("p2", vcore=8)), (20, N1))
hard = played(PLAIN, (0, gang("Hard", vcore=9)), (0, placeholder("p1", vcore=1)), (0, placeholder("p2", vcore=8)), (20, N1))
overruns = played(PLAIN, (0, app("app-1", timeout_ms=10_000)), (0, T1), (0, ask("t2", "app-1", vcore=9)), (20, N1))


PREEMPTOR = queue("b", guaranteed=TWO, p={"preemption.delay": "1s"})
CONTENDED = tree(queue("a"), PREEMPTOR)
CONTENTION = (
    (0, APP), (0, ask("t1", "app-1", vcore=2)), (0, T2), (1, app("app-2", "root.b")),
    (1, ask("u1", "app-2", vcore=2, preempt_other=True)), (3, N1),
)  # fmt: skip
preempts = played(CONTENDED, *CONTENTION)
PREEMPTS = (
    "Request 'u1' preempts t2 of app-1 in root.a on node n1: its queue is 0.002 vcore below its guarantee (law 4); "
    "work lost (resources times seconds) 0.006 vcore; used parts of guarantees root.b 0.00 to 1.00"
)


def ends_victim_itself() -> World:
    """The resource manager releases a preempted task as if it wished so."""
    world = make_world(CONTENDED, [N1], confirms=False)
    for at, submission in CONTENTION:
        world.send(submission, at=at)
    world.send(release("t2"))
    return world


no_victim = on_plain(app("app-2"), ask("u1", "app-2", vcore=4, priority=1), APP, ask("t1", "app-1", vcore=4, requires="n1"))


def over_quota(vcore: int) -> str:
    """Leaf ``a`` gives back 1 s after it was lowered."""
    leaf = queue("a", max={"vcore": vcore}, p={"quota.preemption.delay": "1s"})
    return tree(leaf, preemption={"enabled": True, "quotapreemptionenabled": True})


gives_back = played(over_quota(4), (0, APP), (0, T1), (0, T2), (1, configure(over_quota(1))), (3, N1))
SUMMARY = (
    "Quota Preemption results summary: preemptable resources: map[vcore:2], claimed resources: map[vcore:1], "
    "selected victims: 2, preempted victims: 1"
)
stays_above = played(over_quota(4), (0, APP), (0, ask("t1", "app-1", vcore=2)), (1, configure(over_quota(1))), (3, N1))
STAYS = "1m vcore above its maximum; it has given back what it could"
refused = on_plain(answering(True), *answer("gpu", "n1", no="no gpu"), APP, ask("t1", "app-1", vcore=1, predicate="gpu"))


def reserves() -> World:
    """Two nodes of 4 run 3 each; 2 more fit in the cluster but on no node, until t1 ends (SC-50 to SC-54, row 4 of 6.3)."""
    world = make_world(PLAIN, [N1, node("n2", vcore=4)])
    world.send(APP, ask("t1", "app-1", vcore=3), ask("t2", "app-1", vcore=3), ask("t3", "app-1", vcore=2))
    world.wait(5)
    world.send(release("t1"), at=6)
    return world


def loses_partition() -> World:
    world = make_world(PLAIN, [N1])
    world.send(APP, T1)
    world.direct.ingest(world.now_ns, [RemovePartition()])
    return world


def drains_queue() -> World:
    """A managed queue leaves the configuration, and a dynamic one its last application."""
    text = tree(queue("a"), queue("b"), placementrules=[{"name": "provided", "create": True}])
    world = make_world(text, [N1])
    world.send(app("app-1", "root.new"))
    world.send(remove("app-1"), configure(tree(queue("a"), placementrules=[{"name": "provided", "create": True}])))
    world.wait(30)
    return world


def configured(*texts: str) -> Scenario:
    def play() -> World:
        world = make_world(texts[0])
        for text in texts[1:]:
            world.send(configure(text))
        return world

    return play


def quotas_by_template() -> World:
    parent = queue("p", parent=True, childtemplate=template(max={"vcore": 2}, guaranteed={"vcore": 1}))
    world = make_world(tree(parent, placementrules=[{"name": "provided", "create": True}]))
    world.send(app("app-1", "root.p.new"))
    return world


def failed(consequence: Consequence) -> Scenario:
    """A partition with a bug; ``actors.supervision`` reports it."""

    def scenario() -> World:
        world = on_plain()()
        world.facts.append(PartitionFailed(0, consequence, "ValueError: a bug"))
        return world

    return scenario


def audited(act: Act, **result: str) -> Scenario:
    """Somebody administers the daemon; ``surfaces.admission.audit`` tells it."""

    def scenario() -> World:
        world = on_plain()()
        world.facts.append(Audited(0, "ops", "10.0.0.7:5000", "operator", act, "n1", **result))
        return world

    return scenario


def of_audit(change: str, act: Act, message: str) -> Row:
    return "AUDIT", "n1", change, f"AUDIT_{act}", "ops", f"from 10.0.0.7:5000 as operator: {message}", None


#: What can only be refused.
REFUSED = (Act.CONNECT, Act.SEND)


def held_by(**limits: object) -> Scenario:
    """app-1 waits until app-0, which runs, has ended."""
    text = tree(queue("a", **limits))
    first = [app("app-0"), ask("t0", "app-0", vcore=1), APP, T1]
    return played(
        text, *((0, submission) for submission in first), (1, N1), (2, ask("t2", "app-1", vcore=1)), (3, remove("app-0"))
    )


LIMITED = tree(queue("a", max={"vcore": 1}))
ENLARGED = tree(queue("a", max={"vcore": 3}))
USER_LIMIT = tree(queue("a", limits=[limit("alice", vcore=1)]))
USER_ENLARGED = tree(queue("a", limits=[limit("alice", vcore=3)]))
over_queue = on_plain(APP, T2, node("n2", vcore=4), node("n3", vcore=4), configure(ENLARGED), text=LIMITED)
over_limit = on_plain(APP, T2, node("n2", vcore=4), node("n3", vcore=4), configure(USER_ENLARGED), text=USER_LIMIT)

GROUPS = tree(queue("a", limits=[limit(groups=("dev",), vcore=3)]))
counts_group = on_plain(app("app-1", groups=("dev",)), T1, release("t1"), remove("app-1"), text=GROUPS)


def resizes() -> World:
    world = runs()
    world.send(ask("t1", "app-1", vcore=3))
    world.send(ask("t1", "app-1", vcore=1))
    return world


def moves() -> World:
    world = make_world(tree(queue("a"), queue("b")), [N1])
    world.send(APP, T1)
    assert world.administer(move("app-1", "root.b")) == ""
    return world


def ended_by(termination_type: str) -> Scenario:
    return on_plain(APP, T1, release("t1", termination_type=termination_type))


def operated(*requests: Administration) -> Scenario:
    """An operator acts on an application with a pending ask."""

    def scenario() -> World:
        world = waits()
        assert [world.administer(request) for request in requests] == [""] * len(requests)
        return world

    return scenario


def administrated() -> World:
    world = waits()
    assert world.administer(terminate("app-1")) == ""
    return world


# ---- the table

AMOUNTS = "(requested map[vcore:2], available map[vcore:1])"
TOO_SMALL = (
    "Task group 'g' in application 'app-1': allocation resources 'map[vcore:2]' are not matching placeholder "
    "'map[vcore:1]' allocation with ID 'p1'"
)

ROWS: dict[tuple[str, str], list[Case]] = {
    ("APP", "application added, or rejected at once"): [
        (runs, [of_app("ADD", "APP_NEW")]),
        (rejected, [of_app("ADD", "APP_NEW")]),
    ],
    ("APP", "state entered"): [
        (ends, [of_state(f"APP_{name}") for name in ("ACCEPTED", "STARTING", "RUNNING", "COMPLETING", "COMPLETED")]),
        (hard, [of_state("APP_FAILING", "ResourceReservationTimeout"), of_state("APP_FAILED")]),
        (soft, [of_state("APP_RESUMING", "ResourceReservationTimeout")]),
        (overruns, [of_state("APP_FAILING", "ExecutionTimeout")]),
        (loses_partition, [of_state("APP_FAILING", "PartitionRemoved"), of_state("APP_FAILED")]),
        (administrated, [of_state("APP_FAILING", "Terminated")]),
        (expires, [of_state("APP_EXPIRED")]),
        (rejected, [of_state("APP_REJECT", "invalid username, it contains invalid characters")]),
    ],
    ("APP", "ask added"): [(runs, [of_app("ADD", "APP_REQUEST", "t1", ONE)])],
    ("APP", "allocation made, reported or put in a placeholder's place"): [
        (runs, [of_app("ADD", "APP_ALLOC", "t1", ONE)]),
        (reserves, [of_app("ADD", "APP_ALLOC", "t3", TWO)]),
        (replaces, [of_app("ADD", "APP_ALLOC", "p1", ONE), of_app("ADD", "APP_ALLOC", "t1", ONE)]),
        (recovers, [of_app("ADD", "APP_ALLOC", "t1", ONE)]),
        (placed_by_rm, [of_app("ADD", "APP_ALLOC", "t1", {"vcore": 9})]),
    ],
    ("APP", "ask record removed"): [
        (on_plain(APP, ask("t1", "app-1", vcore=9), release("t1")), [of_app("REMOVE", "REQUEST_CANCEL", "t1", {"vcore": 9})]),
        (ends, [of_app("REMOVE", "REQUEST_CANCEL", "t1", ONE), of_app("REMOVE", "REQUEST_CANCEL", "t2", TWO)]),
        (
            on_plain(APP, T1, ask("t2", "app-1", vcore=9), remove("app-1")),
            [of_app("REMOVE", "REQUEST_CANCEL", "t1", ONE), of_app("REMOVE", "REQUEST_CANCEL", "t2", {"vcore": 9})],
        ),
    ],
    ("APP", "ask record removed by a timeout"): [
        (soft, [of_app("REMOVE", "REQUEST_TIMEOUT", "p1", ONE), of_app("REMOVE", "REQUEST_TIMEOUT", "p2", {"vcore": 8})]),
        (overruns, [of_app("REMOVE", "REQUEST_TIMEOUT", "t1", ONE), of_app("REMOVE", "REQUEST_TIMEOUT", "t2", {"vcore": 9})]),
    ],
    ("APP", "allocation ended"): [
        (ends, [of_app("REMOVE", "ALLOC_CANCEL", "t1", ONE), of_app("REMOVE", "ALLOC_CANCEL", "t2", TWO)]),
    ],
    ("APP", "application left its queue"): [
        (ends, [of_app("REMOVE", "DETAILS_NONE")]),
        (on_plain(APP, remove("app-1")), [of_app("REMOVE", "DETAILS_NONE")]),
    ],
    ("APP", "held, or no longer (OP-1); message held by <name>, hold ended by <name>"): [
        (
            operated(hold("app-1"), hold("app-1"), hold("app-1", ends=True)),
            [of_state("APP_HOLD", "held by ops"), of_state("APP_HOLD", "hold ended by ops")],
        ),
    ],
    ("APP", "pending ask got another priority (OP-12); message priority <before> -> <after>"): [
        (
            operated(prioritise("app-1", -3), prioritise("app-1", -3, "t1")),
            [of_app("SET", "APP_PRIORITY", "t1", message="priority 0 -> -3")],
        ),
    ],
    ("APP", "held back by maxapplications, or no longer"): [
        (held_by(maxapplications=1), [of_app("NONE", "APP_CANNOTRUN_QUEUE"), of_app("NONE", "APP_RUNNABLE_QUEUE")]),
    ],
    ("APP", "held back by a limit of its user or group, or no longer"): [
        (
            held_by(limits=[limit("alice", applications=1)]),
            [of_app("NONE", "APP_CANNOTRUN_QUOTA"), of_app("NONE", "APP_RUNNABLE_QUOTA")],
        ),
    ],
    ("cause", "STOPPED_BY_RM, or its application was removed"): [
        (ends_victim_itself, [of_app("REMOVE", "ALLOC_CANCEL", "t2", TWO)]),
        (ended_by("STOPPED_BY_RM"), [of_app("REMOVE", "ALLOC_CANCEL", "t1", ONE)]),
        (on_plain(APP, T1, remove("app-1")), [of_app("REMOVE", "ALLOC_CANCEL", "t1", ONE)]),
    ],
    ("cause", "PREEMPTED_BY_SCHEDULER"): [(ended_by("PREEMPTED_BY_SCHEDULER"), [of_app("REMOVE", "ALLOC_PREEMPT", "t1", ONE)])],
    ("cause", "TIMEOUT"): [
        (ended_by("TIMEOUT"), [of_app("REMOVE", "ALLOC_TIMEOUT", "t1", ONE)]),
        (soft, [of_app("REMOVE", "ALLOC_TIMEOUT", "p1", ONE)]),
    ],
    ("cause", "PLACEHOLDER_REPLACED"): [(replaces, [of_app("REMOVE", "ALLOC_REPLACED", "p1", ONE)])],
    ("cause", "its node was removed"): [
        (on_plain(APP, T1, node("n1", "DECOMISSION")), [of_app("REMOVE", "ALLOC_NODEREMOVED", "t1", ONE)]),
    ],
    ("REQUEST", "the queue has no room"): [
        (over_queue, [of_request("t2", f"Request 't2' does not fit in queue 'root.a' {AMOUNTS}", TWO)]),
    ],
    ("REQUEST", "the quota has room again"): [
        (over_queue, [of_request("t2", "Request 't2' has become schedulable in queue 'root.a'", TWO)]),
        (over_limit, [of_request("t2", "Request 't2' fits in the available user quota", TWO)]),
    ],
    ("REQUEST", "a limit of its user or group has no room"): [
        (over_limit, [of_request("t2", f"Request 't2' exceeds the available user quota {AMOUNTS}", TWO)]),
    ],
    ("REQUEST", "the resource manager refuses all nodes with room"): [
        (refused, [of_request("t1", "Unschedulable request 't1': no gpu (1x); ", ONE)])
    ],
    ("REQUEST", "no task can be preempted on the required node"): [
        (no_victim, [of_request("t1", "Unschedulable request 't1' with required node 'n1', no preemption victim found", FOUR)])
    ],
    ("REQUEST", "others are preempted for the ask"): [(preempts, [of_request("u1", PREEMPTS, TWO, "app-2")])],
    ("REQUEST", "chosen as a victim"): [(preempts, [of_request("t2", "Preempted by u1 from application app-2 in root.b", TWO)])],
    ("REQUEST", "chosen as a victim of a lowered quota"): [
        (gives_back, [of_request("t1", "Preempted by Quota change enforcement process in root.a", ONE)])
    ],
    ("REQUEST", "the placeholder is too small for a real ask"): [
        (grows, [of_request("p1", TOO_SMALL, TWO)]),
    ],
    ("NODE", "node added"): [(runs, [of_node("ADD", "DETAILS_NONE", resource=FOUR, message="Node added to the scheduler")])],
    ("NODE", "node removed"): [
        (on_plain(node("n1", "DECOMISSION")), [of_node("REMOVE", "NODE_DECOMISSION", message="Node removed from the scheduler")]),
    ],
    ("NODE", "schedulable or not, at creation and when it changes"): [
        (runs, [of_node("SET", "NODE_SCHEDULABLE", message="schedulable: true")]),
        (on_plain(node("n2", "CREATE_DRAIN")), [of_node("SET", "NODE_SCHEDULABLE", message="schedulable: false", at="n2")]),
        (
            on_plain(node("n1", "DRAIN_NODE"), node("n1", "DRAIN_NODE")),
            [of_node("SET", "NODE_SCHEDULABLE", message="schedulable: false")],
        ),
    ],
    ("NODE", "allocation put on the node, also a foreign one"): [
        (runs, [of_node("ADD", "NODE_ALLOC", "t1", ONE)]),
        (replaces, [of_node("ADD", "NODE_ALLOC", "p1", ONE), of_node("ADD", "NODE_ALLOC", "t1", ONE)]),
        (recovers, [of_node("ADD", "NODE_ALLOC", "t1", ONE)]),
        (on_plain(foreign("f1", "n1", vcore=1)), [of_node("ADD", "NODE_ALLOC", "f1", ONE)]),
    ],
    ("NODE", "allocation taken off the node"): [
        (ends, [of_node("REMOVE", "NODE_ALLOC", "t1", ONE), of_node("REMOVE", "NODE_ALLOC", "t2", TWO)]),
        (replaces, [of_node("REMOVE", "NODE_ALLOC", "p1", ONE)]),
        (on_plain(APP, T1, node("n1", "DECOMISSION")), [of_node("REMOVE", "NODE_ALLOC", "t1", ONE)]),
        (on_plain(foreign("f1", "n1", vcore=1), release("f1", "")), [of_node("REMOVE", "NODE_ALLOC", "f1", ONE)]),
    ],
    ("NODE", "capacity changed"): [
        (on_plain(node("n1", "UPDATE", vcore=2), node("n1", "UPDATE", vcore=2)), [of_node("SET", "NODE_CAPACITY", resource=TWO)]),
    ],
    ("NODE", "attributes replaced (SC-159)"): [
        (
            on_plain(attributes(zone="b", disk="ssd"), attributes(disk="ssd", zone="b"), attributes(zone="c")),
            [of_node("SET", "NODE_ATTRIBUTES", message=message) for message in ("disk=ssd, zone=b", "zone=c")],
        ),
    ],
    ("NODE", "foreign usage changed"): [
        (
            on_plain(foreign("f1", "n1", vcore=1), foreign("f1", "n1", vcore=2), release("f1", "")),
            [of_node("SET", "NODE_OCCUPIED", resource=amount) for amount in (ONE, TWO, {})],
        ),
    ],
    ("NODE", "node reserved"): [(reserves, [of_node("ADD", "NODE_RESERVATION", "t3", TWO)])],
    ("NODE", "reservation ended"): [(reserves, [of_node("REMOVE", "NODE_RESERVATION", "t3", TWO)])],
    ("QUEUE", "managed queue created, root included"): [
        (configured(PLAIN), [of_queue("root", "ADD", "DETAILS_NONE"), of_queue("root.a", "ADD", "DETAILS_NONE")]),
    ],
    ("QUEUE", "dynamic queue created"): [(drains_queue, [of_queue("root.new", "ADD", "QUEUE_DYNAMIC")])],
    ("QUEUE", "queue removed"): [
        (drains_queue, [of_queue("root.b", "REMOVE", "DETAILS_NONE"), of_queue("root.new", "REMOVE", "QUEUE_DYNAMIC")]),
    ],
    ("QUEUE", "application entered or left the leaf"): [
        (ends, [of_queue("root.a", "ADD", "QUEUE_APP", "app-1"), of_queue("root.a", "REMOVE", "QUEUE_APP", "app-1")]),
    ],
    ("QUEUE", "application moved to another leaf"): [
        (
            moves,
            [
                of_queue("root.a", "REMOVE", "QUEUE_APP", "app-1", message="moved to root.b"),
                of_queue("root.b", "ADD", "QUEUE_APP", "app-1", message="moved from root.a"),
            ],
        ),
    ],
    ("QUEUE", "max changed by configuration, tags or, for root, nodes"): [
        (runs, [of_queue("root", "SET", "QUEUE_MAX", resource=FOUR)]),
        (
            configured(LIMITED, ENLARGED, ENLARGED, PLAIN),
            [of_queue("root.a", "SET", "QUEUE_MAX", resource=amount) for amount in (ONE, {"vcore": 3}, None)],
        ),
        (quotas_by_template, [of_queue("root.p.new", "SET", "QUEUE_MAX", resource=TWO)]),
    ],
    ("QUEUE", "guarantee changed"): [
        (configured(PLAIN, tree(queue("a", guaranteed=ONE))), [of_queue("root.a", "SET", "QUEUE_GUARANTEED", resource=ONE)]),
        (quotas_by_template, [of_queue("root.p.new", "SET", "QUEUE_GUARANTEED", resource=ONE)]),
    ],
    ("QUEUE", "held, or no longer (OP-2)"): [
        (
            operated(hold("root.a"), hold("root.a", ends=True)),
            [
                of_queue("root.a", "SET", "QUEUE_HOLD", message="held by ops"),
                of_queue("root.a", "SET", "QUEUE_HOLD", message="hold ended by ops"),
            ],
        ),
    ],
    ("QUEUE", "leaf became a parent, or a parent a leaf"): [
        (configured(PLAIN, tree(queue("a", queue("b")))), [of_queue("root.a", "SET", "QUEUE_TYPE", message="leaf queue: false")]),
        (
            configured(tree(queue("a", parent=True)), PLAIN),
            [of_queue("root.a", "SET", "QUEUE_TYPE", message="leaf queue: true")],
        ),
    ],
    ("QUEUE", "a lowered quota was enforced"): [
        (gives_back, [of_queue("root.a", "SET", "QUEUE_PREEMPTION", message=SUMMARY, resource=ONE)])
    ],
    ("QUEUE", "a lowered quota was enforced, and the queue stays above it"): [
        (stays_above, [of_queue("root.a", "SET", "QUEUE_ABOVE_MAX", message=STAYS, resource={"vcore": 1})])
    ],
    ("QUEUE", "configuration accepted or refused"): [
        (configured(PLAIN, PLAIN), [of_queue("root", "SET", "QUEUE_CONFIG", message="configuration accepted")]),
        (on_plain(RefuseConfig("line 3")), [of_queue("root", "SET", "QUEUE_CONFIG", message="configuration rejected: line 3")]),
    ],
    ("QUEUE", "the partition failed and goes on"): [
        (failed(Consequence.RESTARTED), [of_queue("root", "SET", "PARTITION_RESTARTED", message="ValueError: a bug")])
    ],
    ("QUEUE", "the partition failed twice because of a message, and goes on without it"): [
        (failed(Consequence.QUARANTINED), [of_queue("root", "SET", "PARTITION_QUARANTINED", message="ValueError: a bug")])
    ],
    ("QUEUE", "the partition failed too often"): [
        (failed(Consequence.STOPPED), [of_queue("root", "SET", "PARTITION_STOPPED", message="ValueError: a bug")])
    ],
    ("AUDIT", "somebody has administered the daemon"): [
        (audited(act, before="a", after="b"), [of_audit("SET", act, "b" if act in (Act.ACCESS, Act.CERTIFICATE) else "a -> b")])
        for act in Act
        if act not in REFUSED
    ],
    ("AUDIT", "somebody was refused"): [(audited(act, refusal="no"), [of_audit("NONE", act, "refused: no")]) for act in Act],
    ("USERGROUP", "a user uses more"): [
        (runs, [of_name("alice", "ADD", "UG_USER_RESOURCE", "root.a", ONE)]),
        (recovers, [of_name("alice", "ADD", "UG_USER_RESOURCE", "root.a", ONE)]),
        (resizes, [of_name("alice", "ADD", "UG_USER_RESOURCE", "root.a", TWO)]),
        (moves, [of_name("alice", "ADD", "UG_USER_RESOURCE", "root.b", ONE)]),
    ],
    ("USERGROUP", "a user uses less"): [
        (ends, [of_name("alice", "REMOVE", "UG_USER_RESOURCE", "root.a", amount) for amount in (ONE, TWO)]),
        (resizes, [of_name("alice", "REMOVE", "UG_USER_RESOURCE", "root.a", TWO)]),
        (moves, [of_name("alice", "REMOVE", "UG_USER_RESOURCE", "root.a", ONE)]),
    ],
    ("USERGROUP", "a group uses more or less"): [
        (counts_group, [of_name("dev", name, "UG_GROUP_RESOURCE", "root.a", ONE) for name in ("ADD", "REMOVE")]),
    ],
    ("USERGROUP", "limit set, also by the first application under a * limit"): [
        (configured(GROUPS), [of_name("dev", "SET", "UG_GROUP_LIMIT", "root.a")]),
        (configured(PLAIN, USER_LIMIT, USER_LIMIT), [of_name("alice", "SET", "UG_USER_LIMIT", "root.a")]),
        (
            on_plain(APP, T1, app("app-2"), ask("u1", "app-2", vcore=1), text=tree(queue("a", limits=[limit("*", vcore=3)]))),
            [of_name("alice", "SET", "UG_USER_LIMIT", "root.a")],
        ),
    ],
    ("USERGROUP", "limit removed"): [
        (configured(USER_LIMIT, PLAIN), [of_name("alice", "REMOVE", "UG_USER_LIMIT", "root.a")]),
        (configured(GROUPS, PLAIN), [of_name("dev", "REMOVE", "UG_GROUP_LIMIT", "root.a")]),
        (
            on_plain(APP, T1, configure(PLAIN), text=tree(queue("a", limits=[limit("*", vcore=3)]))),
            [of_name("alice", "REMOVE", "UG_USER_LIMIT", "root.a")],
        ),
    ],
    ("USERGROUP", "application counted against a group"): [(counts_group, [of_name("dev", "SET", "UG_APP_LINK", "app-1")])],
    ("USERGROUP", "application no longer counted against a group"): [
        (counts_group, [of_name("dev", "REMOVE", "UG_APP_LINK", "app-1")]),
        (
            on_plain(app("app-1", groups=("dev",)), T1, configure(PLAIN), text=GROUPS),
            [of_name("dev", "REMOVE", "UG_APP_LINK", "app-1"), of_name("dev", "REMOVE", "UG_GROUP_RESOURCE", "root.a", ONE)],
        ),
    ],
}

CASES = [
    pytest.param(*case, id=f"{kind}: {when} {number}") for (kind, when), row in ROWS.items() for number, case in enumerate(row, 1)
]


@pytest.mark.parametrize(("scenario", "expected"), CASES)
def test_row(scenario: Scenario, expected: list[Row]) -> None:
    """The records of a row come with their object, reference, message and resource, and each once (EV-12, EV-23, EV-25, OP-9).

    The cause of an end is the type of the release, whatever the scheduler asked for (EV-13).
    """
    found = records(scenario())
    assert [(found.count(record), record) for record in expected] == [(1, record) for record in expected]


def test_every_row_has_a_scenario() -> None:
    """Each row of the table is produced by a scenario."""
    assert [row for row, cases in ROWS.items() if not cases] == []


def test_nothing_else_is_told() -> None:
    """Whatever type, change and detail a scenario produces is in the table (EV-2)."""
    rows = {(record[0], record[2], record[3]) for row in ROWS.values() for _, expected in row for record in expected}
    told = {(record[0], record[2], record[3]) for row in ROWS.values() for scenario, _ in row for record in records(scenario())}
    assert told == rows


def test_kinds_are_those_of_the_table() -> None:
    """A follower can filter by exactly the types and details that the table has (EV-2)."""
    found: dict[str, set[str]] = {}
    for row in ROWS.values():
        for _, expected in row:
            for record in expected:
                found.setdefault(record[0], set()).add(record[3])
    assert {kind: set(details) for kind, details in EVENT_KINDS.items()} == found


def test_the_page_has_these_rows() -> None:
    """The rows of the rule page are those that have scenarios (EV-69 to EV-74)."""
    assert rows_of(PAGE.read_text()) == list(ROWS)


def rows_of(page: str) -> list[tuple[str, str]]:
    """The subject of each row of a table of events, and when it is written, in the order of the page."""
    found, kind = [], ""
    for line in page.splitlines():
        if heading := re.match(r"### (\S+)", line):
            kind = TABLES.get(heading[1], "")
        elif kind and line.startswith("| ") and not line.startswith(("| when |", "| cause |")):
            found.append((kind, line.split("|")[1].strip().replace("`", "")))
    return found
