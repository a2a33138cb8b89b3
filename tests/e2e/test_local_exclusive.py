"""One local resource manager of a machine for each daemon, whatever its directory, its user, and the way to write the address."""

import os
import signal
from pathlib import Path

import pytest
import trio
from daemon import real_daemon, run_command
from localjobs import local_manager

from ykactor.local.exclusive import InUse, daemon_of, only_for
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


async def test_other_daemons_are_free(tmp_path: Path) -> None:
    """The lock is of a daemon, not of the machine."""
    async with only_for(f"unix:{tmp_path}/one"), only_for(f"unix:{tmp_path}/two"):
        with pytest.raises(InUse, match=f"found process {os.getpid()} of "):
            async with only_for(f"unix:{tmp_path}/one"):
                raise AssertionError
    async with only_for(f"unix:{tmp_path}/one"):
        pass


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
