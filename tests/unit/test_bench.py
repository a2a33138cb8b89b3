"""``bench/``: that it measures what it says, in the form that scripts read. Small sizes; nothing here is about speed."""

import json
import os
import runpy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio
from click.testing import CliRunner
from forked import Forked
from msgspec import structs
from rich.console import Console

from bench import __main__ as program
from bench import cases, daemon, holds, measures, phases, runs, shapes, steps
from bench.cases import CASES, Measured
from bench.followers import Followed, follow
from bench.harness import running
from bench.measures import Samples
from bench.memory import Cluster, footprint
from bench.plot import svg
from bench.preempting import Starving, preempt
from bench.runs import Figure, Report, Result, measure_all
from bench.small_messages import Sending, Small, cost
from bench.sockets import Paced, bulk, latency
from bench.table import print_report
from bench.targets import Target, target, times_better, yunikorn_here
from bench.workloads import FullCluster, Workload
from ykactor.wire import queuefile

SMALL = Workload(nodes=20, leaves=2, applications=4, asks_each=50)
SMALL_CLUSTER = FullCluster(nodes=5, asks=200)
HOLDING = holds.Holding(asks=100, applications=2, waiting=10)
STARVING = Starving(nodes=6, queues=2, asks_each=2, others=128)
RATE = "allocations_per_second"
COSTS = {"cpu_us": 1, **{phases.figure_of(phase): 1 for phase in phases.PHASES}}

THROUGHPUT = ["own-500", "own-1000", "own-2000", "own-5000", "one-app-50k", "apps-1000-fifo", "apps-1000-fair", "full-cluster"]


def pretend(name: str) -> Measured:
    """A run that took no time."""
    case = CASES[name]
    if name == "full-cluster":
        figures = {"answer_ms": [1.0, 2.0], "first_ms": [1.0, 2.0], "all_ms": [2.0, 3.0]}
        return Measured(name, case.nodes, case.asks, figures, 50.0)
    if case.group == "throughput":
        return Measured(name, case.nodes, case.asks, {RATE: [40_000.0 - case.nodes], "cpu_us": [20.0 + case.nodes / 1000]}, 50.0)
    return Measured(name, case.nodes, case.asks, {"ms": [1.0]}, 50.0)


@pytest.fixture(autouse=True)
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of ten million takes seconds."""
    monkeypatch.setattr(runs, "calibrate", lambda: 0.49)


@pytest.fixture(autouse=True)
def forked_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The imports of a daemon take longer than what is measured here."""
    python_process = daemon.python_process

    @asynccontextmanager
    async def forked(program: str, *arguments: str, **pipes: int | None) -> AsyncIterator[trio.Process | Forked]:
        if program != "ykactor":
            async with python_process(program, *arguments, **pipes) as process:
                yield process
            return
        started = await Forked.start(arguments, os.environ)
        try:
            yield started
        finally:
            started.kill()
            with trio.CancelScope(shield=True):
                await started.wait()
                await started.aclose()

    monkeypatch.setattr(daemon, "python_process", forked)


@pytest.fixture
def report() -> Report:
    return measure_all(["throughput", "latency"], 2, pretend)


# ---- the measurements


@pytest.mark.parametrize(
    "shape",
    [
        shapes.hostnames(nodes=20, asks=50),
        shapes.zones(nodes=20, asks=50, count=4),
        shapes.leaves(parents=3, each=3, asks=50, applications=9, nodes=20),
        shapes.many_applications(applications=50, leaves=5, nodes=20),
        shapes.recovery(nodes=20, each=3),
    ],
    ids=["hostnames", "zones", "leaves", "applications", "recovery"],
)
async def test_shapes(shape: shapes.Shape) -> None:
    """All asks are placed; the cost is that of one placement."""
    samples = await shapes.cost(shape)
    assert samples.keys() == {"cpu_us", "max_ms"}
    assert samples["cpu_us"][0] > 0


async def test_memory() -> None:
    """All allocations run and all asks wait when the peaks are read; the second is a difference."""
    samples = await footprint(Cluster(nodes=4, each=5, asks=30, applications=3))
    assert samples.keys() == {"running_mib", "waiting_mib"}
    assert samples["running_mib"][0] > 10
    assert samples["waiting_mib"][0] >= 0


async def test_waiting() -> None:
    """Asks that wait until they may reserve: the cost of the first pass, of reserving, and of a release with a new ask."""
    waiting = shapes.Waiting(nodes=5, asks=100, sizes=10, pairs=3)
    found: list[Samples] = []

    async def measure(take: Callable[[shapes.Waiting], Awaitable[Samples]]) -> None:
        found.append(await take(waiting))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure, shapes.first_pass)
        nursery.start_soon(measure, shapes.release_and_submit)
    assert {name for samples in found for name in samples} == {"first_s", "reserve_s", "pair_ms", "max_ms"}


@pytest.mark.parametrize(
    "measure",
    [
        lambda: holds.release(HOLDING),
        lambda: holds.enforce(HOLDING),
        lambda: holds.replace(holds.LargeGang(nodes=10, asks=20)),
        lambda: holds.snapshot(HOLDING),
    ],
    ids=["release", "quota", "gang", "snapshot"],
)
async def test_holds(measure: Callable[[], Awaitable[Samples]]) -> None:
    """Each decision or message is finished; the figures are of the event loop."""
    samples = await measure()
    assert samples.keys() - {"mib"} == {"max_ms", "cpu_s"}
    assert all(value > 0 for values in samples.values() for value in values)


@pytest.mark.parametrize(("is_hopeless", "decisions"), [(False, 4), (True, 2)])
async def test_preemption(is_hopeless: bool, decisions: int) -> None:
    """Every search for victims is timed: one for each ask, or one for each queue in which no task may be preempted."""
    samples = await preempt(structs.replace(STARVING, is_hopeless=is_hopeless))
    assert len(samples["decision_ms"]) + len(samples["first_ms"]) == decisions
    assert samples.keys() - {"decision_ms", "first_ms"} == {"step_max_ms", "others_per_second", "ratio"}
    assert all(value > 0 for values in samples.values() for value in values)


@pytest.mark.parametrize(
    ("measure", "figures"),
    [
        (lambda: measures.throughput(SMALL), {RATE: 1, "cpu_us": 1}),
        (lambda: measures.loop_lag(SMALL), {"max_ms": 1, "p99_ms": 1, "step_max_ms": 1, "gc_max_ms": 1}),
        (lambda: measures.freed_node(SMALL_CLUSTER, rounds=2), {"answer_ms": 2, "first_ms": 2, "all_ms": 2}),
        (lambda: measures.one_more_ask(SMALL_CLUSTER, rounds=3), {"ms": 3}),
        (lambda: measures.idle(SMALL, duration_s=0.01), {"cpu_s": 1}),
        (lambda: phases.of_workload(SMALL), COSTS),
        (lambda: phases.of_freed_nodes(SMALL_CLUSTER, rounds=2), COSTS),
    ],
)
async def test_measurement_gives_its_samples(measure: Callable[[], Awaitable[Samples]], figures: dict[str, int]) -> None:
    """Every measurement ends by itself and answers the figures it promises, none of them negative."""
    with trio.fail_after(180):
        samples = await measure()
    assert {name: len(values) for name, values in samples.items()} == figures
    assert all(value >= 0 for values in samples.values() for value in values)


async def test_phases_add_up_to_the_whole() -> None:
    """Whatever the thread does belongs to exactly one phase; only the garbage collector may have nothing to do."""
    with trio.fail_after(180):
        samples = await phases.of_workload(SMALL)
    costs = {name: values[0] for name, values in samples.items()}
    whole = costs.pop("cpu_us")
    assert sum(costs.values()) == pytest.approx(whole, rel=0.1)
    assert all(cost > 0 for name, cost in costs.items() if name != "gc_us")


async def test_setup_is_carried_out_in_order() -> None:
    """The tasks that fill the nodes are placed before the asks that are to wait arrive, however the tasks of the rig are run."""
    async with running(SMALL_CLUSTER.config(), SMALL_CLUSTER.setup()) as rig:
        nodes = rig.partition.core.registry.nodes.values()
        assert [len(node.allocations) for node in nodes] == [4] * SMALL_CLUSTER.nodes


@pytest.mark.parametrize("offers_deflate", [True, False])
async def test_followers_read_everything(offers_deflate: bool) -> None:
    """A real daemon for each number of followers; every follower has every event, and the ratios compare with the first."""
    with trio.fail_after(180):
        samples = await follow(Followed(counts=(1, 3), nodes=20, fast=200, paced=100, offers_deflate=offers_deflate))
    figures = ("cpu_us", "per_second", "ack_ms", "ack_median_ms", "incomplete")
    assert samples.keys() == {f"{name}_{count}" for name in figures for count in (1, 3)} | {"ratio_3"}
    assert samples["incomplete_1"] == samples["incomplete_3"] == [0.0]


async def test_sockets() -> None:
    """A real daemon: the latency of each ask, and the rate in both encodings beside that without sockets."""
    with trio.fail_after(300):
        found = await latency(Paced(nodes=20, asks=50)) | await bulk(SMALL)
    rates = {"without_per_second", *(f"{name}_{what}" for name in ("json", "msgpack") for what in ("per_second", "share"))}
    assert found.keys() == rates | {"p50_ms", "p99_ms", "cpu_us", "json_cpu_us", "msgpack_cpu_us"}
    assert found["p50_ms"][0] <= found["p99_ms"][0]


async def test_small_messages() -> None:
    """A real daemon for each number of asks in a message, with and without a journal; every ask is placed and acknowledged."""
    with trio.fail_after(300):
        found = await cost(Small(nodes=20, applications=4, base=SMALL, floods={7: 40}, paced=40))
    names = {"per_second_7", "p50_ms", "p99_ms", *(f"{name}_{count}" for name in ("cpu_us", "ratio") for count in ("7", "paced"))}
    assert found.keys() == {"base_cpu_us", *names, *(f"without_{name}" for name in names)}
    assert found["ratio_7"][0] == found["cpu_us_7"][0] / found["base_cpu_us"][0]
    assert 0 < found["p50_ms"][0] <= found["p99_ms"][0]


async def test_steps_of_a_daemon_are_counted_by_task() -> None:
    """A real daemon: the tasks that each message needs have taken steps and time, and few steps are of unknown tasks."""
    with trio.fail_after(100):
        spent = await steps.measured(SMALL, Sending(5))
    for part in ("session: frames", "turn: partition", "turn: scheduler", "journal: gathering, telling what is durable"):
        assert spent.steps[part] > 0
        assert spent.cpu_s[part] > 0
    assert spent.cpu_s["journal: thread that commits"] > 0
    assert spent.steps.get(steps.OTHER, 0) < sum(spent.steps.values()) / 10


@pytest.mark.parametrize("workload", [SMALL, Workload(20, 10, 20, 10, "fair")])
def test_workload_holds_the_asks_it_says(workload: Workload) -> None:
    """A workload has ``asks`` different asks, of ``applications`` applications, and a configuration that can be loaded."""
    asks = [ask for request in workload.requests() for ask in request.allocations]
    assert len({(ask.application_id, ask.allocation_key) for ask in asks}) == len(asks) == workload.asks
    assert len({ask.application_id for ask in asks}) == workload.applications
    queuefile.load(workload.config())


def test_cases_have_the_fixed_names_and_sizes() -> None:
    """Scripts know the cases by name; the sizes are those of the benchmark's definition."""
    sizes = {name: (CASES[name].nodes, CASES[name].asks) for name in CASES if CASES[name].group == "throughput"}
    assert sizes == {
        "own-500": (500, 10_000),
        "own-1000": (1_000, 10_000),
        "own-2000": (2_000, 10_000),
        "own-5000": (5_000, 10_000),
        "one-app-50k": (1_000, 50_000),
        "apps-1000-fifo": (2_000, 50_000),
        "apps-1000-fair": (2_000, 50_000),
        "full-cluster": (1_000, 20_000),
    }


# ---- putting runs together


def test_figure_is_the_median_with_the_extremes() -> None:
    """One slow run moves the minimum, not the figure."""
    assert Figure.of([3.0, 1.0, 2.0]) == Figure(2.0, 1.0, 3.0)


def test_cost_ratio_compares_the_own_shape_at_both_sizes(report: Report) -> None:
    """CPU time of an allocation at 5,000 nodes divided by that at 500."""
    (result,) = (result for result in report.results if result.name == "cost-ratio")
    assert result.figures["ratio"].median == pytest.approx(25.0 / 20.5)


def test_latency_alone_runs_what_the_cost_ratio_needs() -> None:
    """The two cases are run, but not reported: they belong to the other group."""
    ran: list[str] = []
    latency = measure_all(["latency"], 1, pretend, ran.append)
    names = ["add-one-ask", "loop-lag", "reload-5000", "preemption", "no-victims", "idle", "cost-ratio"]
    assert [result.name for result in latency.results] == names
    assert {"own-500", "own-5000"} <= set(ran)


def test_rates_and_times_scale_in_opposite_directions() -> None:
    """YuniKorn's figures are scaled to this machine: twice the rate and half the time on one twice as fast; above 1 is better."""
    assert yunikorn_here(RATE, 4_700, 0.245) == pytest.approx(9_400)
    assert yunikorn_here("first_ms", 7.7, 0.245) == pytest.approx(3.85)
    assert times_better(RATE, 20_000, 10_000) == times_better("first_ms", 1.0, 2.0) == 2.0


@pytest.mark.parametrize(
    ("bound", "name", "figure", "is_met"),
    [
        (Target(30_000), RATE, Figure(30_000, 20_000, 40_000), True),
        (Target(30_000), RATE, Figure(29_999, 20_000, 40_000), False),
        (Target(1.0), "ms", Figure(1.0, 0.5, 9.0), True),
        (Target(10.0, always=True), "max_ms", Figure(5.0, 3.0, 10.1), False),
        (Target(), "ms", Figure(5.0, 3.0, 10.1), True),
    ],
)
def test_target_is_met(bound: Target, name: str, figure: Figure, is_met: bool) -> None:
    """More is better for rates, less for times; ``always`` looks at the worst sample."""
    assert bound.is_met(name, figure) is is_met


def test_every_throughput_figure_has_a_target(report: Report) -> None:
    """Nothing of the throughput group is only looked at, but for the CPU time, which says whether the machine was busy."""
    throughput = [result for result in report.results if result.name in THROUGHPUT]
    assert all(
        target(result.name, name).bound is not None for result in throughput for name in result.figures if name != "cpu_us"
    )


# ---- what comes out


def test_json_is_one_object_with_the_fixed_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``--only throughput --json`` prints one JSON object, nothing else on stdout, and keeps nothing."""
    monkeypatch.setattr(program, "measure_all", lambda groups, rounds, on_run: measure_all(groups, rounds, pretend, on_run))
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    answer = CliRunner().invoke(program.main, ["--only", "throughput", "--json"])
    assert answer.exit_code == 0, answer.output
    printed = json.loads(answer.stdout)
    assert set(printed) == {"cases", "calibration"}
    assert printed["calibration"] == 0.49
    assert [case["name"] for case in printed["cases"]] == THROUGHPUT
    for case in printed["cases"]:
        figures = {"answer_ms", "first_ms", "all_ms"} if case["name"] == "full-cluster" else {RATE, "cpu_us"}
        assert set(case) == {"name", "nodes", "asks", "rss_mib"} | figures
        assert all(isinstance(value, int | float) for key, value in case.items() if key != "name")
    assert not list(tmp_path.iterdir())


def test_one_run_of_a_case_prints_what_the_parent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--case NAME --json`` in a fresh process gives a ``Measured`` with the process's peak of memory."""
    monkeypatch.setitem(cases.CASES, "own-500", cases.Case("throughput", 20, 200, lambda: measures.throughput(SMALL)))
    answer = CliRunner().invoke(program.main, ["--case", "own-500", "--json"])
    assert answer.exit_code == 0, answer.output
    printed = json.loads(answer.stdout)
    assert set(printed) == {"name", "nodes", "asks", "samples", "rss_mib"}
    assert printed["samples"][RATE][0] > 0
    assert printed["rss_mib"] > 1


def test_fresh_process_runs_a_case() -> None:
    """The parent reads what the child printed."""
    measured = runs.in_fresh_process("own-500")
    assert measured.name == "own-500"
    assert measured.samples[RATE][0] > 0


def test_report_is_kept_as_json_and_picture(report: Report, tmp_path: Path) -> None:
    """The results file is named by its time in UTC and holds all figures; the picture is an SVG."""
    data, picture = program.keep(report, tmp_path / "results")
    assert data.name == f"{report.at.replace(':', '')}.json"
    assert json.loads(data.read_bytes())["results"][0]["figures"][RATE] == {"median": 39_500, "min": 39_500, "max": 39_500}
    assert ET.parse(picture).getroot().tag.endswith("svg")


def test_picture_has_a_bar_for_each_rate_and_stays_inside(report: Report) -> None:
    """The picture parses as XML, names every case that has a rate, and draws nothing beyond its edges."""
    root = ET.fromstring(svg(report))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert set(THROUGHPUT) - {"full-cluster"} <= texts
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for element in root.iter("{http://www.w3.org/2000/svg}rect"):
        box = {key: float(element.get(key, 0)) for key in ("x", "y", "width", "height")}
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert 0 <= box["y"] <= box["y"] + box["height"] <= height


def test_picture_of_nothing_is_still_one() -> None:
    """A report of the latency group has no rates to draw."""
    ET.fromstring(svg(Report("2026-01-01T00:00:00Z", "m", "3.11", 0.49, 1, [])))


def test_table_says_met_and_missed(report: Report) -> None:
    """A line for each figure, whole words, and the verdict where there is a target; phases are in a table of their own."""
    slow = Result("own-500", 500, 10_000, {RATE: Figure.of([29_000.0])}, 50.0)
    fast = Result("own-1000", 1_000, 10_000, {RATE: Figure.of([31_000.0])}, 50.0)
    printed = StringIO()
    timed = Result("phases-apps-1000-fifo", 500, 10_000, {name: Figure.of([12.25]) for name in COSTS}, 50.0)
    lag = Result("loop-lag", 5_000, 100_000, {"step_max_ms": Figure(0.000123, 0.000123, 0.000123)}, 0.123)
    results = [slow, fast, *report.results[2:], lag, timed]
    print_report(Report(report.at, "m", "3.11", 0.49, 1, results), Console(width=program.TABLE_WIDTH, file=printed))
    lines = {line.split()[0]: line for line in printed.getvalue().splitlines() if line.strip()}
    assert "missed" in lines["own-500"]
    assert "met" in lines["own-1000"]
    assert lines["phases-apps-1000-fifo"].split()[1:] == ["12.2"] * len(COSTS)
    assert "…" not in "".join(lines.values())


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("serve", 2)])
def test_steps_serve_only_for_themselves(monkeypatch: pytest.MonkeyPatch, argument: str, code: int) -> None:
    """``bench.steps`` is the daemon that it measures if it has started it, and else a command without arguments."""
    monkeypatch.setattr(sys, "argv", ["bench.steps", argument])
    with pytest.warns(RuntimeWarning, match="found in sys.modules"), pytest.raises(SystemExit) as ended:
        runpy.run_module("bench.steps", run_name="__main__")
    assert ended.value.code == code
