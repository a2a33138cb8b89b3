"""One local resource manager of a machine for each daemon, whatever its directory, its user, and the address that it uses."""

import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio.testing
from daemon import LIMIT_S, RunningDaemon, new_token, real_daemon, run_command
from localjobs import LocalManager, local_manager

from ykactor.local.exclusive import InUse, daemon_of, is_one_daemon, only_for
from ykactor.local.machine import user_name
from ykactor.local.model import State

#: A user that every machine has, and that is not root.
NOBODY = 65534


async def test_the_first_one_stays(tmp_path: Path) -> None:
    """A second one with a directory of its own is refused and told who is there; the machine is promised once."""
    async with real_daemon() as daemon, local_manager(tmp_path / "first", daemon.url, "--resource", "vcore=2") as first:
        job = await first.submit("sleep 0.5", resource={"vcore": 2000})
        for url in (daemon.url, daemon.url.replace("127.0.0.1", "localhost")):
            _, errors = await run_command("local", "--url", url, "--local-dir", tmp_path / "second", expect=1)
            assert f"found process {first.process.pid} of " in errors
            assert "expected one for each daemon" in errors
            assert errors.count("Error") == 1
        assert await first.states(job) == [State.COMPLETED]
        assert first.log().count("registered") == 1


async def test_a_killed_one_leaves_nothing_behind(tmp_path: Path) -> None:
    """The next one takes its place at once, while a job of the first runs on."""
    async with real_daemon() as daemon, local_manager(tmp_path / "l", daemon.url) as local:
        job = await local.submit("sleep 1")
        await local.has_state(job, State.RUNNING)
        await local.kill()
        await local.start()
        assert await local.states(job) == [State.COMPLETED]


ACCESS = """
identities:
  - name: first
    roles: [rm, reader]
    rmIDs: [local-{host}]
    users: [root]
    proofs: [{{user: root}}]
  - name: second
    roles: [rm]
    rmIDs: [local-{host}]
"""


@pytest.fixture
def directory_of_nobody() -> Iterator[Path]:
    """A directory that another user may enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_daemon_with_two_addresses_is_one(tmp_path: Path, directory_of_nobody: Path) -> None:
    """The first uses the Unix socket, the second is of another user, and uses TCP with a token of an access file."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS.format(host=os.uname().nodename))
    (token := directory_of_nobody / "token").write_text(new_token("second", access))
    os.chown(token, NOBODY, NOBODY)
    token.chmod(0o600)
    ws = ("--ws", f"unix:{tmp_path}/ws", "--ws", "127.0.0.1:0")
    async with real_daemon("--access", access, ws=ws) as daemon:
        unix, tcp = daemon.url.split(", ")
        second = LocalManager(directory_of_nobody, tcp, "--token-file", str(token), user=NOBODY)
        async with local_manager(tmp_path / "first", unix) as first, killed(second):
            job = await first.submit("sleep 2")
            await first.has_state(job, State.RUNNING)
            await second.open()
            assert await _sorted_out(first, second) == (first, second), first.log()
            said = await second.ends()
            assert f"{tcp}: found process {first.process.pid} of {user_name(0)} as the local resource manager" in said
            assert (said.count("Error"), said.count("registered")) == (1, 0)
            assert await first.states(job) == [State.COMPLETED]
            assert (first.log().count("registered"), first.log().count("no connection")) == (1, 0)
            await first.kill()
            await second.open()
            await second.has_said("registered")


@asynccontextmanager
async def killed(manager: LocalManager) -> AsyncIterator[None]:
    """Kill the manager at the end of the block, which opens it."""
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await manager.kill()


@asynccontextmanager
async def at_both(directory: Path, port: int, *options: str | Path) -> AsyncIterator[RunningDaemon]:
    """A daemon with a Unix socket and a TCP port."""
    async with real_daemon(*options, ws=("--ws", f"unix:{directory}/ws", "--ws", f"127.0.0.1:{port}")) as daemon:
        yield daemon


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_daemon_that_comes_later_and_restarts(tmp_path: Path, is_kept: bool) -> None:
    """One of two managers that wait for a daemon stays; it also has the place at its next start, with and without a journal."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    state = ("--state-dir", tmp_path / "state") if is_kept else ()
    urls = f"unix:{tmp_path}/ws", f"ws://127.0.0.1:{port}"
    async with local_manager(tmp_path / "a", urls[0]) as a, local_manager(tmp_path / "b", urls[1]) as b:
        async with at_both(tmp_path, port, *state):
            stays, ends = await _sorted_out(a, b)
            assert f"found process {stays.process.pid} of " in await ends.ends()
            assert "registered" not in ends.log()
            await stays.has_said("registered")
        async with at_both(tmp_path, port, *state):
            await stays.has_said("resumed" if is_kept else "registered", times=1 if is_kept else 2)
            await ends.open()
            assert (await ends.ends()).count(f"found process {stays.process.pid} of ") == 2


async def test_two_that_are_there_when_a_daemon_restarts_do_not_fight(tmp_path: Path) -> None:
    """One came by the other address while the daemon was away: the daemon is served by one of them, and the other one ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with local_manager(tmp_path / "a", f"unix:{tmp_path}/ws") as a:
        async with at_both(tmp_path, port):
            await a.has_said("registered")
        async with local_manager(tmp_path / "b", f"ws://127.0.0.1:{port}") as b, at_both(tmp_path, port):
            stays, ends = await _sorted_out(a, b)
            assert f"found process {stays.process.pid} of " in await ends.ends()
            await stays.has_said("registered", times=2 if stays is a else 1)
            assert "another" not in stays.log()


async def _sorted_out(a: LocalManager, b: LocalManager) -> tuple[LocalManager, LocalManager]:
    """Wait until one of them has ended; returns the one that stays, and that one."""
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.relative_deadline = LIMIT_S

        async def watch(manager: LocalManager) -> None:
            await manager.process.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch, a)
        nursery.start_soon(watch, b)
    return (a, b) if a.process.returncode is None else (b, a)


async def test_other_daemons_are_free(tmp_path: Path) -> None:
    """The lock is of a daemon, not of the machine."""
    async with only_for(f"unix:{tmp_path}/one"), only_for(f"unix:{tmp_path}/two"):
        with pytest.raises(InUse, match=f"found process {os.getpid()} of "):
            async with only_for(f"unix:{tmp_path}/one"):
                raise AssertionError
    async with only_for(f"unix:{tmp_path}/one"):
        pass


async def test_the_place_at_a_term(tmp_path: Path) -> None:
    """Addresses that lead to one daemon are one place; a new term is taken before the old one is left; "" is no term."""
    async with only_for(f"unix:{tmp_path}/one") as take_one, only_for(f"unix:{tmp_path}/two") as take_two:
        for term in ("", "1-a", "1-a"):
            take_one(term)
        take_two("")
        with pytest.raises(InUse, match=f"two: found process {os.getpid()} of "):
            take_two("1-a")
        take_two("1-b")
        with pytest.raises(InUse, match="one: found process"):
            take_one("1-b")
        with pytest.raises(InUse, match="two: found process"):
            take_two("1-a")
        take_one("2-a")
        await trio.testing.wait_all_tasks_blocked()
        take_two("1-a")
        await trio.testing.wait_all_tasks_blocked()
        take_one("1-b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_too(tmp_path: Path) -> None:
    """Whoever was first, also without a right to end it or to read its files."""
    url = f"unix:{tmp_path}/daemon"
    ready, holding = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(NOBODY)
        trio.run(_hold, url, holding)
    try:
        assert os.read(ready, 1) == b"!"
        with pytest.raises(InUse, match=f"found process {child} of {user_name(NOBODY)} "):
            trio.run(_hold, url, holding)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def _hold(url: str, told: int) -> None:
    async with only_for(url):
        os.write(told, b"!")
        await trio.sleep_forever()


async def test_an_address_has_one_text(tmp_path: Path) -> None:
    """However it is written: names, links, other addresses of this machine, and the default ports."""
    (tmp_path / "link").symlink_to(tmp_path)
    for same in (
        (f"unix:{tmp_path}/ws", f"unix:{tmp_path}/link/ws", f"unix:{tmp_path}/../{tmp_path.name}/ws"),
        ("ws://127.0.0.1:9081", "ws://localhost:9081", "ws://LOCALHOST:9081/", "wss://0.0.0.0:9081", "ws://127.0.0.2:9081"),
        ("ws://198.51.100.1", "ws://198.51.100.1:80"),
        ("wss://no.such.name.invalid", "wss://NO.such.name.invalid:443"),
    ):
        assert len({await daemon_of(url) for url in same}) == 1, same
    different = ("ws://127.0.0.1:9081", "ws://127.0.0.1:9082", "ws://198.51.100.1:9081", "ws://198.51.100.2:9081", "unix:9081")
    assert len({await daemon_of(url) for url in different}) == len(different)


async def test_addresses_of_one_daemon_have_one_in_common() -> None:
    """A list with the standbys and the address of the daemon alone mean the same one."""
    pair = "ws://127.0.0.1:9081,ws://127.0.0.1:9082"
    for other in ("ws://127.0.0.1:9082", "ws://localhost:9082,ws://no.such.name.invalid:9082", "ws://localhost:9081"):
        assert await is_one_daemon(pair, other), other
        assert await is_one_daemon(other, pair), other
    assert not await is_one_daemon(pair, "ws://127.0.0.1:9083,wss://no.such.name.invalid")
