"""``config apply --confirm-within``, ``config confirm`` and ``config rollback`` (CF-91) beside real daemons."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from daemon import RunningDaemon, application, node, real_daemon, run_command
from daemonhere import serving
from replicas import running_replica
from seeds import seeds
from test_config_command import WITHOUT_A
from test_hot_reload import by_rename
from test_take_over import Place
from triedwork import LARGER, TWO_QUEUES

from ykactor.actors.clock import Clock
from ykactor.client import Disconnected, RequestRefused, connect, follow, operate
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.views.top import frame
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir
from ykactor.wire.queuefile import load
from ykactor.wire.si import messages as si

#: Longer than it takes until a change of the file is seen and applied (0.2 to 0.5 s): then "nothing came" means something.
QUIET_S = 1.5
FIRST = TWO_QUEUES
SUMS = {load(text).checksum: text for text in (TWO_QUEUES, LARGER, WITHOUT_A)}


def applied(text: str, window_s: float = 3600) -> si.UpdateConfigurationRequest:
    return si.UpdateConfigurationRequest(config=text, confirm_within_seconds=window_s)


async def in_force(url: str) -> str:
    output, _ = await run_command("config", "-o", "name", "--url", url)
    return SUMS[output.strip()]


async def test_the_commands(tmp_path: Path, queue_file: Path) -> None:
    """Apply, a refusal, health and top tell whose it is and until when; rollback says what stays."""
    (larger := tmp_path / "larger.yaml").write_text(LARGER)
    (other := tmp_path / "other.yaml").write_text(WITHOUT_A)
    async with real_daemon("--config", queue_file, "--state-dir", tmp_path / "state") as daemon:
        url = ("--url", daemon.url)
        output, _ = await run_command("config", "apply", other, "--confirm-within", "1h", *url)
        assert output.splitlines()[0] == f"{other} is in force"
        assert output.splitlines()[1].endswith("unless it is confirmed: ykactor config confirm")
        _, errors = await run_command("config", "apply", larger, *url, expect=exit_codes.FAILED)
        assert f"{larger} refused: AWAITS_CONFIRMATION: the configuration" in errors
        plan, _ = await run_command("config", "plan", larger, *url)
        assert plan.splitlines()[-1].endswith("; confirm it or roll it back before another one is applied")
        assert "apply with: " not in plan
        health, _ = await run_command("health", *url)
        (line,) = [line for line in health.splitlines() if line.startswith("Configuration")]
        assert "of an operator awaits confirmation until 20" in line
        async with follow(daemon.url, from_="snapshot") as messages:
            snapshot = await anext(messages)
            assert isinstance(snapshot, si.Snapshot)
            assert any("awaits confirmation until" in line for line in frame(snapshot, 20))
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node(vcore=4000))
            await rm.request(application(queue="root.c"))
            output, _ = await run_command("config", "rollback", *url)
        assert output.splitlines() == [
            "the previous configuration is in force again",
            "  queue root.c drains: 1 application",
        ]
        assert await in_force(daemon.url) == TWO_QUEUES
        for command, name in (("confirm", "confirmation"), ("rollback", "rollback")):
            _, errors = await run_command("config", command, *url, expect=exit_codes.FAILED)
            assert errors == f"{name} refused: no configuration awaits confirmation\n"
        await run_command("config", "apply", larger, "--confirm-within", "10s", *url)
        output, _ = await run_command("config", "confirm", *url)
        assert output == "the configuration is confirmed\n"
        output, _ = await run_command("config", "apply", larger, "--confirm-within", "1h", *url)
        told = "it was in force already: no window is open, and there is nothing to confirm"
        assert output.splitlines() == [f"{larger} is in force", f"  {told}"]
        assert await in_force(daemon.url) == LARGER


@pytest.mark.parametrize("window", ["9s", "25h", "-1m", "NaN", "", "5", "9" * 30 + "h"])
async def test_wrong_windows(tmp_path: Path, window: str) -> None:
    """An error says what was expected, before anything is asked."""
    (larger := tmp_path / "larger.yaml").write_text(LARGER)
    arguments = ("apply", larger, "--confirm-within", window, "--url", "ws://127.0.0.1:1")
    _, errors = await run_command("config", *arguments, expect=exit_codes.USAGE)
    assert f"found {window!r}, expected a time of 10s to 24h" in errors


async def test_a_changed_file_and_a_resource_manager_wait(tmp_path: Path, queue_file: Path) -> None:
    """They are put into force when the window has ended; who asks for the file, or registers with another text, is refused."""
    async with real_daemon("--config", queue_file, "--state-dir", tmp_path / "state") as daemon, operate(daemon.url) as operator:
        await operator.request(applied(LARGER))
        by_rename(queue_file, WITHOUT_A)
        with pytest.raises(RequestRefused, match="AWAITS_CONFIRMATION"):
            await operator.request(si.ReloadConfiguration())
        with pytest.raises(RequestRefused, match="AWAITS_CONFIRMATION"):
            async with connect(daemon.url, rm_id="rm-1", config=TWO_QUEUES):
                pass
        await trio.sleep(QUIET_S)
        assert await in_force(daemon.url) == LARGER
        await operator.request(si.ConfirmConfiguration())
        await daemon.wait_logged("config_applied", 2)
        assert await in_force(daemon.url) == WITHOUT_A
        async with connect(daemon.url, rm_id="rm-1") as rm, trio.open_nursery() as nursery:
            await operator.request(applied(LARGER))
            nursery.start_soon(rm.request, si.UpdateConfigurationRequest(config=TWO_QUEUES))
            await rm.request(node(vcore=1000))  # others do not wait
            assert await in_force(daemon.url) == LARGER
            await operator.request(si.RollBackConfiguration())
        assert await in_force(daemon.url) == TWO_QUEUES


async def test_a_file_that_was_changed_while_no_daemon_ran_waits_too(tmp_path: Path, queue_file: Path) -> None:
    """A start in the window goes on with it."""
    arguments = ("--config", queue_file, "--state-dir", tmp_path / "state")
    async with real_daemon(*arguments) as daemon:
        async with operate(daemon.url) as operator:
            await operator.request(applied(LARGER))
        daemon.process.kill()
    await trio.Path(queue_file).write_text(WITHOUT_A)
    async with real_daemon(*arguments) as daemon, operate(daemon.url) as operator:
        await trio.sleep(QUIET_S)
        assert await in_force(daemon.url) == LARGER
        await operator.request(si.RollBackConfiguration())
        await daemon.wait_logged("config_applied", 2)
        assert await in_force(daemon.url) == WITHOUT_A


async def test_a_resource_manager_has_no_window(tmp_path: Path, queue_file: Path) -> None:
    """Only an operator can confirm."""
    async with real_daemon("--config", queue_file, "--state-dir", tmp_path / "state") as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            with pytest.raises(RequestRefused, match="only an operator can confirm"):
                await rm.request(applied(LARGER))
        assert await in_force(daemon.url) == TWO_QUEUES


async def test_a_replica_tells_it(tmp_path: Path, queue_file: Path) -> None:
    """A check of its health, as of that of the daemon."""
    async with real_daemon("--config", queue_file, "--state-dir", tmp_path / "state") as daemon:
        async with operate(daemon.url) as operator:
            await operator.request(applied(LARGER))
        async with running_replica(daemon.url) as replica:
            health, _ = await run_command("health", "--url", replica.url)
            assert "at the daemon: configuration" in health


@pytest.mark.parametrize("hands_over", [False, True])
async def test_a_standby_goes_on_with_the_window(tmp_path: Path, hands_over: bool) -> None:
    """The one that becomes the daemon knows the way back."""
    (first := tmp_path / "first.yaml").write_text(TWO_QUEUES)
    place = Place(tmp_path)
    async with place.standby(1) as standby:
        async with place.daemon(0, "--standbys", "1", "--config", str(first)) as daemon:
            async with operate(daemon.url) as operator:
                await operator.request(applied(LARGER))
            if not hands_over:
                daemon.process.kill()
                await daemon.process.wait()
            await place.take_over()
        await standby.logged("daemon_started")
        assert await in_force(place.urls[1]) == LARGER
        async with operate(place.urls[1]) as operator:
            with pytest.raises(RequestRefused, match="AWAITS_CONFIRMATION"):
                await operator.request(si.UpdateConfigurationRequest(config=WITHOUT_A))
            await operator.request(si.RollBackConfiguration())
        assert await in_force(place.urls[1]) == TWO_QUEUES


# ---- killed at any moment

KILLS = 6
WINDOW_S = 3600.0


@asynccontextmanager
async def after_the_window(directory: Path, until_ns: int) -> AsyncIterator[Daemon]:
    """The next daemon, which starts when the window is over."""
    with open_state_dir(StateSettings(directory, "off", 2**30, 10**18), reserves=True) as state:
        assert state.recovered is not None
        clock = Clock(max(until_ns, state.recovered.at_ns) + 1000)
        daemon = Daemon(
            None, Settings(), clock, state.journal(clock.now_ns), state.take_recovered(), state.terms, standbys=state.standbys
        )
        async with serving(daemon):
            yield daemon


class Changes:
    """Changes of a configuration, each confirmed or rolled back, until the daemon is killed.

    Attributes:
        known: the checksum of the configuration that was in force when a window ended the last time.
        pending: of the one that may be confirmed already; "" if none may.
    """

    def __init__(self, known: str, rng: random.Random) -> None:
        self.known, self.pending = known, ""
        self._rng = rng

    async def run(self, daemon: RunningDaemon) -> None:
        with suppress(Disconnected):
            async with operate(daemon.url) as operator:
                while True:
                    (other,) = {load(LARGER).checksum, load(TWO_QUEUES).checksum} - {self.known}
                    await operator.request(applied(SUMS[other], WINDOW_S))
                    if self._rng.random() < 0.5:
                        self.pending = other
                        await operator.request(si.ConfirmConfiguration())
                        self.known, self.pending = other, ""
                    else:
                        await operator.request(si.RollBackConfiguration())


@pytest.mark.parametrize("seed", seeds(10))
async def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """Old or new is in force in all partitions; after the end of the window new only if its confirmation was sent (CF-91)."""
    rng = random.Random(seed)
    directory, first = tmp_path / "state", tmp_path / "first.yaml"
    await trio.Path(first).write_text(TWO_QUEUES)
    changes = Changes(load(TWO_QUEUES).checksum, rng)
    arguments = ["--config", str(first)]
    for _ in range(KILLS):
        async with real_daemon(*arguments, "--state-dir", directory) as daemon, trio.open_nursery() as nursery:
            nursery.start_soon(changes.run, daemon)
            await trio.sleep(rng.uniform(0, 0.3))
            daemon.process.kill()
        arguments = []
        with open_state_dir(StateSettings(directory, "off", 2**30, 10**18), reserves=True) as state:
            assert state.recovered is not None
            until_ns = state.recovered.at_ns + round(2 * WINDOW_S * 10**9)
            assert state.recovered.config.checksum in SUMS
        async with after_the_window(directory, until_ns) as next_daemon:
            found = next_daemon.config.checksum
            assert found in {changes.known, changes.pending}
            assert next_daemon.unconfirmed is None
            for config in next_daemon.config.partitions:
                assert next_daemon.registry(config.name).config == config
        changes.known, changes.pending = found, ""
