"""The frames of ``ykactor top``."""

import click
import pytest
from msgspec import structs
from world import app, ask, make_world, node, queue, report, tree

from ykactor.surfaces.cli.views.top import bar, frame
from ykactor.wire.si import messages as si


@pytest.mark.parametrize(
    ("use", "mark", "drawn"),
    [
        (0.0, None, "[" + "." * 24 + "]"),
        (0.5, 0.75, "[" + "#" * 12 + "." * 6 + "|" + "." * 5 + "]"),
        (1.0, 0.5, "[" + "#" * 12 + "|" + "#" * 11 + "]"),
        (3.0, 2.0, "[" + "#" * 23 + "|]"),
    ],
)
def test_bars(use: float, mark: float | None, drawn: str) -> None:
    """A part of 24 places, with the guarantee; a queue above its quota has a full bar."""
    assert bar(use, mark) == drawn


def small(queues: int) -> si.Snapshot:
    """A snapshot of queues of which the last uses half of its quota, and the one before has two asks that wait."""
    names = [f"q{number}" for number in range(queues - 2)]
    text = tree(*map(queue, names), queue("y", max={"vcore": 100}), queue("z", max={"vcore": 2000}, guaranteed={"vcore": 500}))
    w = make_world(text, [node("n1", vcore=8000)])
    w.given(app("app-1", "root.z"), ask("t1", "app-1", vcore=1000))
    w.given(app("app-2", "root.y"), *(ask(f"w{number}", "app-2", vcore=1000) for number in range(2)))
    return si.Snapshot(sequence=7, partitions=[w.shown()])


def test_a_small_tree() -> None:
    """All queues in the order of the tree, then the reasons; what waits in a queue is counted in those above it too."""
    lines = [click.unstyle(line) for line in frame(small(2), 20)]
    assert lines[0] == "default: 2 applications, 1 task running, 2 asks pending, 1 node"
    assert [line.split()[0] for line in lines[2:5]] == ["root", "root.y", "root.z"]
    assert lines[4].split()[1:4] == ["50%", "[######|#####............]", "0"]
    assert [line.split()[-5] for line in lines[2:4]] == ["2", "2"]
    assert lines[6:8] == ["ASKS  REASON", "   2  can never fit: wants 1, may have at most 0.1 vcore in queue root.y"]


def test_jobs_that_wait() -> None:
    """A reason has the first job that waits for it, and how many others do; a long name is cut before the reason."""
    w = make_world(tree(queue("a", max={"vcore": 100})), [node("n1", vcore=8000)])
    for number, name in enumerate(("n" * 100, "eval", "", "eval")):
        w.given(app(f"job-{number}", "root.a"), report(f"job-{number}", name, tasks=1))
        w.given(ask(f"t{number}", f"job-{number}", vcore=1000))
    lines = [click.unstyle(line) for line in frame(si.Snapshot(sequence=7, partitions=[w.shown()]), 20)]
    assert lines[5].split() == ["ASKS", "JOBS", "REASON"]
    assert lines[6].startswith(f"   4  {'n' * 15}\u2026 +2  can never fit: ")


def test_a_resource_manager_that_is_away() -> None:
    """Nothing ends or comes while it is, so that is said first."""
    for is_connected in (True, False):
        manager = si.RegisteredResourceManager("rm-1", connected=is_connected, since=1_000_000_000_000_000_000)
        first, *_ = frame(structs.replace(small(2), resource_manager=manager), 20)
        away = "Resource manager rm-1, away since 2001-09-09T01:46:40.000Z"
        assert click.unstyle(first).startswith("default: " if is_connected else away)


def test_the_last_cycle() -> None:
    """A live daemon tells how long it took."""
    cycles = {"count": 3, "lastSeconds": 0.00123, "meanSeconds": 0.001, "maxSeconds": 0.002}
    first, *_ = frame(structs.replace(small(2), cycles={"default": cycles, "gpu": {}}), 20)
    assert click.unstyle(first).endswith("1 node, last cycle 1.23 ms")


def test_the_busiest_of_many_queues() -> None:
    """The queues that fit are shown: first those in which something waits, then the most used; never too many lines."""
    lines = [click.unstyle(line) for line in frame(small(50), 12)]
    assert len(lines) <= 12
    shown = [line.split()[0] for line in lines if line.startswith("root")]
    assert {"root", "root.y", "root.z"} <= set(shown)
    assert any("wants" in line for line in lines)
    assert len(frame(small(50), 3)) == 3


def test_partitions_share_the_lines() -> None:
    """Each is shown."""
    state = small(50).partitions[0]
    lines = frame(si.Snapshot(sequence=1, partitions=[state, structs.replace(state, name="gpu")]), 30)
    assert len(lines) <= 30
    assert [click.unstyle(line).partition(":")[0] for line in lines if "applications" in line] == ["default", "gpu"]
