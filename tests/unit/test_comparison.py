"""``sim/trial.py`` and ``sim/comparison.py``: the figures of a run, and what is different between two."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from generate import generate
from jsonschemas import complaints
from msgspec import structs
from seeds import seeds

from ykactor.sim import trial
from ykactor.sim.comparison import TOP, Applications, Compared, Comparison, Moved, Names, Range, compare, json_schema, paired
from ykactor.sim.series import SPANS, Series
from ykactor.sim.simulator import simulate
from ykactor.sim.summary import Summary
from ykactor.sim.trial import Causes, Group, QueueGroup, Report, RunReport, Spread
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

ROOT = Path(__file__).parents[2]
NAMES = Names("s", "base.yaml", "other.yaml")
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        adminacl: "*"
        queues:
          - {name: a, resources: {guaranteed: {vcore: "1"}}}
          - {name: b}
"""


def new(name: str, queue: str, user: str, group: str = "dev") -> si.AddApplicationRequest:
    return si.AddApplicationRequest(name, queue, ugi=si.UserGroupInformation(user, [group]))


def ask(key: str, of: str, vcore: str = "1", **more: Any) -> si.Allocation:
    return si.Allocation(key, of, resource_per_alloc={"vcore": vcore}, **more)


def scenario(config: str = CONFIG, until: float = 100) -> Scenario:
    """A node of one core; a1 of ann runs from 0 to 10, b1 of bob from 10 to 30, and a2 waits from 20 on."""
    nodes = si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": "1"})])
    applications = si.ApplicationRequest(new=[new("a", "root.a", "ann"), new("b", "root.b", "bob", "ops")])
    return Scenario(
        "s",
        config,
        until,
        messages=[
            TimedRequest(0, nodes),
            TimedRequest(0, applications),
            TimedRequest(0, si.AllocationRequest(allocations=[ask("a1", "a", priority=5)]), {0: 10}),
            TimedRequest(5, si.AllocationRequest(allocations=[ask("b1", "b")]), {0: 20}),
            TimedRequest(20, si.AllocationRequest(allocations=[ask("a2", "a", "2")]), {0: 10}),
        ],
    )


def test_the_figures_of_a_run() -> None:
    """Waits and slowdowns by queue with those above it, user, group and priority; what waits at the end has waited until then."""
    report = trial.run(scenario()).report
    assert (report.total.asks, report.total.waiting) == (3, 1)
    assert report.total.wait_seconds == Spread(mean=(0 + 5 + 80) / 3, p50=5.0, p95=80.0, max=80.0)
    assert report.queues["root.a"].wait_seconds == Spread(40.0, 0.0, 80.0, 80.0)
    assert report.queues["root"].wait_seconds == report.total.wait_seconds
    assert report.users["bob"].wait_seconds == report.groups["ops"].wait_seconds == Spread(5.0, 5.0, 5.0, 5.0)
    assert report.users["bob"].slowdown == Spread(1.25, 1.25, 1.25, 1.25)
    assert report.priorities["5"].asks == 1
    assert report.total.used_percent == {"vcore": pytest.approx(30.0)}
    assert report.users["ann"].used_percent == {"vcore": pytest.approx(10.0)}


def test_what_asks_have_waited_for() -> None:
    """The parts of each wait add up to it, also of an ask that waits at the end (AP-154)."""
    total = trial.run(scenario()).report.total
    assert total.waited_for.p50 == {"QUOTA": 5.0}
    for name in ("mean", "p50", "p95", "max"):
        assert sum(getattr(total.waited_for, name).values()) == pytest.approx(getattr(total.wait_seconds, name))
    assert set(total.waited_for.max) == {"QUOTA"}


@pytest.mark.parametrize("seed", range(8))
def test_the_parts_of_waits_add_up(seed: int) -> None:
    """The parts add up for each queue, user, group and priority, in any history."""
    report = trial.run(generate(seed, reloads=seed % 3)).report
    groups = [report.total, *report.queues.values(), *report.users.values(), *report.groups.values(), *report.priorities.values()]
    for group in groups:
        for name in ("mean", "p50", "p95", "max"):
            parts = getattr(group.waited_for, name)
            assert sum(parts.values()) == pytest.approx(getattr(group.wait_seconds, name) or 0)


@pytest.mark.parametrize("seed", seeds(20))
def test_counts_are_those_of_the_summary(seed: int) -> None:
    """Refusals, and preemptions in vain."""
    story = generate(seed, reloads=seed % 3)
    summary = Summary(story.begin_ns)
    outcome = simulate(story, lambda _, fact: summary.observe(fact))
    found, report = summary.finish(outcome.end_ns, []), trial.run(story).report
    assert (report.rejected, report.in_vain) == (found.rejected, found.preemptions.in_vain)


def test_short_tasks_count_as_ten_seconds() -> None:
    """The slowdown is bounded: of a task of 1 s that waits 9 s it is 1, of one that waits 19 s it is 2."""
    short = scenario()
    messages = [*short.messages[:3], TimedRequest(1, si.AllocationRequest(allocations=[ask("b1", "b")]), {0: 1})]
    assert trial.run(structs.replace(short, messages=messages)).report.users["bob"].slowdown.max == 1.0
    messages[2] = TimedRequest(0, messages[2].request, {0: 20})
    assert trial.run(structs.replace(short, messages=messages)).report.users["bob"].slowdown.max == 2.0


def test_debt_and_credit_of_a_run() -> None:
    """Queue b is entitled to nothing from 5 to 10, because a has a guarantee and demands all; then it has what it demands.

    From 20 on a demands 2 of 1 core and is entitled to 1: until 30 b has what a is entitled to, and afterwards nobody.
    """
    queues = trial.run(scenario()).report.queues
    assert (queues["root.a"].debt, queues["root.a"].credit) == ({"vcore": 80_000.0}, {})
    assert (queues["root.b"].debt, queues["root.b"].credit) == ({}, {"vcore": 10_000.0})
    assert queues["root"].debt == {"vcore": 70_000.0}


def test_preempted_tasks_and_what_they_lose() -> None:
    """An ask below its guarantee preempts after 30 s: the task, and what it had used, count for its owners."""
    opening = scenario()
    preempts = {"preemption_policy": si.PreemptionPolicy(allow_preempt_other=True)}
    messages = [
        *opening.messages[:2],
        TimedRequest(0, si.AllocationRequest(allocations=[ask("b1", "b")])),
        TimedRequest(1, si.AllocationRequest(allocations=[ask("a1", "a", **preempts)])),
    ]
    report = trial.run(structs.replace(opening, messages=messages)).report
    assert (report.total.preempted, report.users["bob"].preempted, report.users["ann"].preempted) == (1, 1, 0)
    assert report.queues["root.b"].lost == {"vcore": 31_000.0}
    assert report.in_vain == 0
    assert report.users["bob"].slowdown.max is None


def test_a_moved_application_counts_where_it_is() -> None:
    """Use and demand go along; waits count in the queue in which the ask is placed."""
    opening = scenario()
    move = si.MoveApplication(application_id="b", queue_name="root.a", ugi=si.UserGroupInformation("bob"))
    messages = [*opening.messages[:4], TimedRequest(20, move)]
    report = trial.run(structs.replace(opening, messages=messages)).report
    assert report.queues["root.b"].used_percent == {"vcore": pytest.approx(10.0)}
    assert report.queues["root.a"].used_percent == {"vcore": pytest.approx(20.0)}
    assert report.queues["root.b"].asks == 1


def test_shares_over_time() -> None:
    """The used part of the guarantee in each span of the run: all of it from 0 to 10 of 100 s."""
    run = trial.run(scenario())
    assert run.shares.keys() == {"root.a"}
    assert run.shares["root.a"] == pytest.approx([1.0] * 10 + [0.0] * (SPANS - 10))
    assert run.used["vcore"] == pytest.approx([1.0] * 30 + [0.0] * (SPANS - 30))


def test_a_series_is_an_average_of_each_span() -> None:
    """Parts of spans count as parts, and what is behind the end in the last one."""
    series = Series(0, 1000)
    series.add(5, 25, 2.0)
    series.add(995, 1000, 1.0)
    assert series.averages()[:4] == pytest.approx([1.0, 2.0, 1.0, 0.0])
    assert series.averages()[-1] == pytest.approx(0.5)
    assert sum(series.averages()) == pytest.approx(4.5)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_run_twice_is_not_different(seed: int) -> None:
    """Every change is 0, and no application waits longer."""
    runs = [trial.run(generate(seed)) for _ in range(2)]
    comparison = compare(NAMES, runs[:1], runs[1:])
    changes = [figure.change for figure in figures_of(comparison.report)]
    assert {change for change in changes if change is not None} == {0}
    assert (comparison.applications.longer, comparison.applications.shorter) == (0, 0)
    assert comparison.applications.paired > 0


def figures_of(found: object) -> Iterator[Compared]:
    """All figures of a report."""
    if isinstance(found, Compared):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from figures_of(value)
    else:
        assert isinstance(found, Report | Group | QueueGroup | Spread | Causes)
        for name in found.__struct_fields__:
            yield from figures_of(getattr(found, name))


def test_what_only_one_run_has() -> None:
    """A queue of one configuration has no values in the other; a type that a queue does not use is 0 there."""
    runs = [trial.run(scenario()), trial.run(scenario(CONFIG + "          - {name: c}\n"))]
    report = compare(NAMES, runs[:1], runs[1:]).report
    assert report.queues["root.c"].asks == Compared(None, 0, None)
    assert report.queues["root.b"].credit == {"vcore": Compared(10_000.0, 10_000.0, 0.0)}
    equal = trial.run(scenario(CONFIG.replace(', resources: {guaranteed: {vcore: "1"}}', "")))
    debt = compare(NAMES, runs[:1], [equal]).report.queues["root.b"].debt
    assert debt == {"vcore": Compared(0, 2_500.0, 2_500.0)}


def run_with(**changes: Any) -> RunReport:
    """A run with other waits of user bob."""
    run = trial.run(scenario())
    waits = Spread(**{"mean": 1.0, "p50": 1.0, "p95": 1.0, "max": 1.0} | changes)
    bob = structs.replace(run.report.users["bob"], wait_seconds=waits)
    return structs.replace(run, report=structs.replace(run.report, users=run.report.users | {"bob": bob}))


def test_ranges_that_overlap_are_not_distinguishable() -> None:
    """The first run has the value, all have the range; a value that no run has is neither."""
    bases = [run_with(p50=4.0, p95=1.0, max=None), run_with(p50=6.0, p95=2.0, max=None)]
    others = [run_with(p50=5.0, p95=3.0, max=None), run_with(p50=7.0, p95=4.0, max=None)]
    waits = compare(NAMES, bases, others).report.users["bob"].wait_seconds
    assert waits.p50 == Compared(4.0, 5.0, 1.0, Range(4.0, 6.0), Range(5.0, 7.0), False)
    assert waits.p95 == Compared(1.0, 3.0, 2.0, Range(1.0, 2.0), Range(3.0, 4.0), True)
    assert waits.max == Compared(None, None, None)


def test_applications_are_paired_by_id() -> None:
    """The numbers that wait longer and less long, those of one run only, and the ten that lose and gain most."""
    base = {f"app-{number}": 10.0 for number in range(30)} | {"gone": 1.0}
    other = {f"app-{number}": 10.0 + number - 10 for number in range(30)} | {"new": 1.0, "newer": 1.0}
    found = paired(base, other)
    assert (found.paired, found.longer, found.shorter, found.only_base, found.only_other) == (30, 19, 10, 1, 2)
    assert [moved.application_id for moved in found.losses] == [f"app-{number}" for number in range(29, 19, -1)]
    assert found.gains[0] == Moved("app-0", 10.0, 0.0, -10.0)
    assert len(found.losses) == len(found.gains) == TOP
    assert paired({}, {}) == Applications(0, 0, 0, 0, 0, [], [])


# ---- as JSON

#: The keys that programs read; they stay.
KEYS = {
    Comparison: "name base other seconds jitter refused report applications spanSeconds used shares waitPercents waitQuantiles"
    " outages",
    Report: "total rejected inVain queues users groups priorities",
    QueueGroup: "asks waiting waitSeconds waitedFor slowdown usedPercent preempted lost debt credit",
    Compared: "base other change baseRange otherRange distinguishable",
    Applications: "paired longer shorter onlyBase onlyOther losses gains",
    Moved: "applicationID baseSeconds otherSeconds changeSeconds",
}


def test_the_keys_of_a_comparison() -> None:
    """They are these, and all of them are in the page about scenarios."""
    page = (ROOT / "ykactor" / "sim" / "README.md").read_text().partition("## The comparison as JSON")[2].partition("\n## ")[0]
    for kind, keys in KEYS.items():
        assert list(kind.__struct_encode_fields__) == keys.split()
        assert {key for key in keys.split() if f"`{key}`" not in page} == set()


def test_the_schema_of_a_comparison() -> None:
    """config/comparison.schema.json is the schema of the structs, and a comparison matches it."""
    schema = json.loads((ROOT / "config" / "comparison.schema.json").read_text())
    assert schema == json.loads(msgspec.json.encode(json_schema()))
    runs = [run_with(p50=4.0), run_with(p50=6.0)]
    for comparison in (compare(NAMES, runs[:1], runs[1:]), compare(NAMES, runs, runs)):
        document = json.loads(msgspec.json.encode(comparison))
        assert list(complaints(document, {"$ref": schema["$ref"]}, schema)) == []
        document["report"]["total"]["asks"]["base"] = "many"
        del document["applications"]["paired"]
        assert list(complaints(document, {"$ref": schema["$ref"]}, schema)) == [".report.total.asks.base", ".applications.paired"]
