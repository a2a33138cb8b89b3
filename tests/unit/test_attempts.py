"""Preemption attempts, and what is reported of them (PE-95)."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from world import app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.kinds import PreemptionKind
from ykactor.core.messages.submissions import Submission
from ykactor.sim.summary import Preemptions, Summary, print_report
from ykactor.surfaces.cli.story import present
from ykactor.wire.si import codec
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import events, mentioned, preemption_text

NS = 10**9


def wants(key: str, application_id: str = "prod", **resource: int) -> Submission:
    """An ask that may preempt."""
    return Ask(key, application_id, resource, allow_preempt_other=True)  # type: ignore[arg-type]


def starving(*, test: int = 0, confirms: bool = True):
    """Two full nodes; ``root.prod`` has nothing of its guarantee, and ``p1`` of it is about to preempt after 30 s."""
    queues = queue("prod", guaranteed={"vcore": 40}), queue("test", guaranteed={"vcore": test})
    world = make_world(tree(*queues), [node("n1", vcore=20), node("n2", vcore=20)], confirms=confirms)
    world.given(app("prod", "root.prod"), app("test", "root.test"))
    world.given(*(ask(f"t{n}", "test", on="n1", vcore=10) for n in range(2)))
    world.given(*(ask(f"u{n}", "test", on="n2", vcore=20) for n in range(1)))
    world.given(wants("p1", vcore=20), at=10)
    return world


def entries(world) -> list[Preempted]:
    return [fact for fact in world.facts if isinstance(fact, Preempted)]


def waiting(world) -> dict[str, Any]:
    """The only group of waiting asks of ``prod``, from a snapshot."""
    (group,) = world.state()["applications"]["prod"]["pending"]
    return group


def test_an_entry_of_the_ledger() -> None:
    """An entry has the preemptor, node, reason, victims, shares before and after, rejected nodes with reasons, and lost work."""
    world = starving(confirms=False)
    world.wait(40)
    (entry,) = entries(world)
    assert (entry.ask.allocation_key, entry.queue, entry.node_id) == ("p1", "root.prod", "n2")
    assert entry.why == "its queue is 0.04 vcore below its guarantee (law 4)"
    assert entry.victims == (("root.test", "test", "u0"),)
    assert (entry.shares_before, entry.shares_after) == ({"root.prod": 0.0}, {"root.prod": 0.5})
    assert entry.rejected == (("n1", "at least 2 tasks would be preempted"),)
    assert entry.work_lost == {"vcore": 20 * 40}


def test_the_event_of_an_entry() -> None:
    """A REQUEST event of the ask: in words for people, whole for programs, the same after its way over the wire."""
    world = starving(confirms=False)
    world.wait(40)
    (record,) = events(entries(world)[0], "default", 7)
    assert (record.type, record.event_change_type, record.event_change_detail) == ("REQUEST", "NONE", "DETAILS_NONE")
    assert (record.object_id, record.reference_id, record.queue_name) == ("p1", "prod", "root.prod")
    assert record.message == (
        "Request 'p1' preempts u0 of test in root.test on node n2: its queue is 0.04 vcore below its guarantee (law 4); "
        "work lost (resources times seconds) 0.8 vcore; used parts of guarantees root.prod 0.00 to 0.50; "
        "not n1: at least 2 tasks would be preempted"
    )
    assert record.preemption == si.Preemption(
        node_id="n2",
        kind=PreemptionKind.GENERIC,
        why="its queue is 0.04 vcore below its guarantee (law 4)",
        victims=[si.PreemptionVictim(queue_name="root.test", application_id="test", allocation_key="u0")],
        shares_before={"root.prod": 0.0},
        shares_after={"root.prod": 0.5},
        rejected=[si.Alternative(node_id="n1", reason="at least 2 tasks would be preempted")],
        work_lost={"vcore": 800},
    )
    for encoding in (codec.JSON, codec.MSGPACK):
        assert encoding.decode_feed(encoding.encode(si.Events(events=[record]))) == si.Events(events=[record])


def test_story_finds_everybody() -> None:
    """An entry is part of the story of the ask, the victims, their applications and queues, and the node."""
    world = starving(confirms=False)
    world.wait(40)
    (record,) = events(entries(world)[0], "default", 1)
    assert mentioned([record]) >= {"p1", "prod", "root.prod", "root", "u0", "test", "root.test", "n2"}
    assert mentioned([record]).isdisjoint({"t0", "n1", "root.t"})


def test_many_victims_are_counted() -> None:
    """The words name a few of many; the entry names all."""
    world = make_world(tree(queue("prod", guaranteed={"vcore": 40}), queue("test")), [node("n1", vcore=20)])
    world.given(app("prod", "root.prod"), app("test", "root.test"), *(ask(f"t{n:02}", "test", vcore=2) for n in range(10)))
    world.given(wants("p1", vcore=20))
    world.wait(31)
    (entry,) = entries(world)
    assert len(entry.victims) == 10
    assert "t05 of test in root.test and 5 more on node n1" in preemption_text(entry)


def test_counts_of_a_partition() -> None:
    """Preemptions, evictions and lost work; in vain is what ends without the ask running."""
    world = starving()
    world.wait(40)
    counted = {"preemptions": 1, "evictions": 1, "inVain": 0, "refused": 0, "workLost": {"vcore": 800}}
    assert world.state()["preemption"] == {"enabled": True, **counted, "preemptors": 0, "victims": 0}
    unconfirmed = starving(confirms=False)
    unconfirmed.wait(40)
    assert unconfirmed.state()["preemption"]["victims"] == unconfirmed.state()["preemption"]["preemptors"] == 1
    unconfirmed.given(release("p1", "prod"))
    assert unconfirmed.state()["preemption"]["inVain"] == 1


def test_why_one_waits_that_may_preempt() -> None:
    """A waiting preemptor shows the result and the time of its last attempt, and when it may try again."""
    world = starving(test=40)
    group = waiting(world)
    assert (group["lastAttempt"], group["nextAttempt"]) == (None, 40 * NS)
    world.wait(41)
    group = waiting(world)
    assert group["reason"] == "wants 0.02, has 0 of 0.04 vcore in the cluster; Preemption does not help"
    assert (group["lastAttempt"], group["nextAttempt"]) == (41 * NS, 56 * NS)
    (line,) = [line for line in present("p1", world.shown()) if "pending" in line]
    tried = "tried to preempt at 1970-01-01T00:00:41.000Z, may preempt from 1970-01-01T00:00:56.000Z on"
    assert line.endswith(f"Preemption does not help; {tried}")


def test_why_one_waits_that_has_preempted() -> None:
    """An ask that has preempted shows how many of its victims have gone, and for which it waits."""
    world = make_world(tree(queue("prod", guaranteed={"vcore": 40}), queue("test")), [node("n1", vcore=20)], confirms=False)
    world.given(app("prod", "root.prod"), app("test", "root.test"), *(ask(f"t{n}", "test", vcore=4) for n in range(5)))
    world.given(wants("p1", vcore=20))
    world.wait(31)
    names = "t4 of test, t3 of test, t2 of test"
    kept = "node n1 is reserved for it; "
    assert world.why("p1") == f"{kept}0 of 5 victims have been released, waiting for {names} and 2 more"
    world.given(*(release(f"t{n}", "test", "PREEMPTED_BY_SCHEDULER") for n in range(2, 5)))
    assert world.why("p1") == f"{kept}3 of 5 victims have been released, waiting for t1 of test, t0 of test"
    assert "nextAttempt" not in waiting(world)


@pytest.mark.parametrize(("confirms", "in_vain"), [(True, 0), (False, 1)])
def test_summary_of_a_run(confirms: bool, in_vain: int) -> None:
    """The summary counts preemptions, those after which the ask did not run, and the lost work, in hours."""
    world = starving(confirms=confirms)
    world.wait(3600)
    summary = Summary()
    for fact in world.facts:
        summary.observe(fact)
    report = summary.finish(3600 * NS, [])
    assert report.preemptions == Preemptions(1, 1, {"vcore": 20 * 3600}, in_vain)
    console = Console(record=True, width=200, file=StringIO())
    print_report(report, console)
    text = f"preemptions: 1, released allocations: 1, asks that preempted and did not run: {in_vain}, work lost: vcore 0.0 h"
    assert text in console.export_text()
