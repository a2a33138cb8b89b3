"""One client sends as much as it can; how long another one waits."""

from __future__ import annotations

import os
from pathlib import Path

import trio
from flooder import KINDS
from forked import Forked
from target import Target, round_trips

_FLOODER = Path(__file__).with_name("flooder.py")
#: How much longer a calm client may wait beside a flood than alone, before or after it (99 of 100 answers), but for the first ms.
RATIO_MAX = 50
_FIRST_S = 0.001
#: A flood makes the daemon work within this time.
_FLOOD_S = 180


async def floods(abused: Target, count: int, ratio_max: int = RATIO_MAX) -> str:
    """Each kind of flood. Returns figures."""
    alone = _quantiles(await round_trips(abused, count))
    figures = [f"alone: {_shown(alone)}"]
    for kind in KINDS:
        found = _quantiles(await _beside(abused, kind, count))
        figures.append(f"beside {kind}: {_shown(found)}")
        before, alone = alone, _quantiles(await round_trips(abused, count))
        assert found[1] < ratio_max * (_FIRST_S + max(before[1], alone[1])), "; ".join([*figures, f"then alone: {_shown(alone)}"])
    return "a calm follower waits " + "; ".join(figures)


async def _beside(abused: Target, kind: str, count: int) -> list[float]:
    used_s = abused.daemon.cpu_s()
    arguments = [kind, str(abused.port), str(abused.resume_from), *filter(None, [abused.authority])]
    environment = os.environ | {"PYTHONPATH": str(_FLOODER.parent)}
    process = await Forked.start(list(map(str, arguments)), environment, program=str(_FLOODER))
    try:
        assert process.stdout is not None
        assert (await process.stdout.receive_some()).startswith(b"begins")
        found = list[float]()
        with trio.fail_after(_FLOOD_S):  # on a busy machine it comes late
            while not found or abused.daemon.cpu_s() - used_s <= sum(found) / 10:
                found += await round_trips(abused, count)
        assert process.poll() is None, f"the flood of {kind} has ended"
        return sorted(found)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def _quantiles(times_s: list[float]) -> tuple[float, float]:
    return times_s[len(times_s) // 2], times_s[len(times_s) * 99 // 100]


def _shown(quantiles: tuple[float, float]) -> str:
    return f"p50 {1e3 * quantiles[0]:.1f} ms, p99 {1e3 * quantiles[1]:.1f} ms"
