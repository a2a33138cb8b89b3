"""The soak, for a few simulated hours, and its verdict about what grows."""

import gc
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio

from bench import soak
from bench.churn import config
from bench.growth import History, Quantity, growing, note, picture
from bench.lives import living
from bench.soak import Plan
from ykactor.actors.clock import Clock
from ykactor.core.partition import timers
from ykactor.core.values.times import S_NS
from ykactor.surfaces.files.recovery import Recovered
from ykactor.surfaces.files.state_dir import StateSettings
from ykactor.wire import queuefile

ROWS = Quantity("applications", "rows")


def test_hours_of_churn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons that end or are killed, a resource manager that is away: invariants hold, history is trimmed, rows do not grow."""
    monkeypatch.setattr(timers, "TERMINAL_TIMEOUT_NS", 1800 * S_NS)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)  # else the collector looks at all tests of the process every ten minutes
    trio._core._run._r.seed(1)  # type: ignore[attr-defined]
    result = soak.run(Plan(hours=6, busy=3, life=2, absence=4, registration=5, keep_bytes=30_000))
    assert result.violations == []
    assert result.placed > 30
    assert result.trimmed > 40
    assert (result.turns > 100, result.compared > 3) == (True, True), (result.turns, result.compared)
    rows = {quantity: values for quantity, values in result.history.items() if quantity.unit == "rows"}
    kinds = ("ended", "user", "node", "queue", "foreign", "answer")
    assert {f"rows {kind}" for kind in kinds} <= {quantity.name for quantity in rows}
    assert all(len(values) == 6 for values in rows.values())
    assert list(growing(rows)) == []


async def test_what_was_recovered_is_not_kept_twice(autojump_clock: object, tmp_path: Path) -> None:
    """A daemon that runs has its state and its events; those that it has read of the journal are not kept beside them."""
    settings, clock = StateSettings(tmp_path, "off", 2**20, 10**18), Clock(0)
    for _ in range(2):
        async with living(settings, queuefile.load(config(0)), clock):
            gc.unfreeze()  # only then all objects are found
            assert not any(isinstance(found, Recovered) for found in gc.get_objects())
    gc.freeze()


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.0] * 10 + [1000.0] * 20, []),
        ([1000.0] * 20 + [1149.0] * 10, []),
        (
            [1000.0] * 20 + [1151.0] * 10,
            ["applications: 1,151.0 rows in the last third, 1,000.0 in the middle third, expected up to 1,150.0"],
        ),
    ],
)
def test_growth_is_judged_by_thirds(values: list[float], verdict: list[str]) -> None:
    """A tenth more than in the middle third, and some rows, are allowed; what grows in the first third is not looked at."""
    assert list(growing({ROWS: values})) == verdict


def test_samples_may_lack_quantities() -> None:
    """A quantity that is not there counts as zero: all have as many values as there were samples."""
    history: History = {}
    note(history, {ROWS: 1.0})
    note(history, {Quantity("nodes", "rows"): 2.0})
    assert history == {ROWS: [1.0, 0.0], Quantity("nodes", "rows"): [0.0, 2.0]}


def test_the_picture_has_a_line_for_each_quantity() -> None:
    """Inside the picture, however many samples there are."""
    history = {ROWS: [float(number % 7) for number in range(720)], Quantity("open files", "descriptors"): [3.0] * 720}
    root = ET.fromstring(picture("churn", history, 30))
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == 2
    for points in (line.attrib["points"].split() for line in lines):
        assert len(points) == 120
        for x, y in (map(float, point.split(",")) for point in points):
            assert 0 < x < float(root.attrib["width"])
            assert 0 < y < float(root.attrib["height"])
