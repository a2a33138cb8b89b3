"""``python tests/kubernetes KILLS [SEED]``: all that needs a real API server, or a fake one for the kills if there is none."""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

import realcontrollers
import reallosses
import realpolicies
import realrecording
import realvolumes
from kubecampaign import Campaign, FakeServing, RealServing, run
from realprocesses import missing

_CONTROLLERS = ("apiserver", "etcd", "controllers")


def main(kills: int, seed: int) -> None:
    """Play everything in turn; what cannot be played is skipped with the reason."""
    _play("the recorded dialogue", realrecording.replay, realrecording.missing())
    _play("the admission policies", realpolicies.play, realpolicies.missing())
    _play("losses", reallosses.play, missing())
    _play("real controllers", realcontrollers.play, missing(*_CONTROLLERS))
    _play("volumes", realvolumes.play, missing(*_CONTROLLERS))
    print(f"kills beside the fake API server: {missing()}" if missing() else "kills beside a real API server", flush=True)
    for has_lease in (True, False):
        _play("two replicas" if has_lease else "alone", partial(_kill, kills, seed, has_lease))


def _play(what: str, play: Callable[[Path], Awaitable[str]], missing: str = "") -> None:
    if missing:
        print(f"{what}: skipped, {missing}", flush=True)
        return
    with tempfile.TemporaryDirectory() as directory:
        print(f"{what}: {trio.run(play, Path(directory))}", flush=True)


async def _kill(kills: int, seed: int, has_lease: bool, directory: Path) -> str:
    serving = FakeServing(directory) if missing() else RealServing(directory, has_controllers=not missing(*_CONTROLLERS))
    campaign = Campaign(directory, serving, seed, has_lease=has_lease, has_takeovers=True)
    return await run(campaign, kills, partial(print, flush=True))


if __name__ == "__main__":
    main(int(sys.argv[1]), int((*sys.argv[2:], "0")[0]))
