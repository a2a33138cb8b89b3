"""SC-158: a process of a resource manager that was replaced by a newer one cannot come back."""

from pathlib import Path

import pytest
from daemon import node, real_daemon, run_command

from ykactor.client import Disconnected, RequestRefused, connect
from ykactor.wire.si import messages as si


async def refused(url: str, rm_id: str = "rm-1", **options: object) -> str:
    """The reason for which the daemon refuses a registration."""
    with pytest.raises(RequestRefused) as caught:
        async with connect(url, rm_id=rm_id, **options):  # type: ignore[arg-type]
            pass
    return str(caught.value)


async def test_the_newer_process_stays() -> None:
    """A lower epoch is refused without effect, whether it resumes or registers afresh; the same one and higher ones are not."""
    stale = "STALE_EPOCH: epoch: found {}, expected at least 7: a newer process of rm-1 has registered"
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", epoch=3) as old:
            await old.request(node())
            async with connect(daemon.url, rm_id="rm-1", epoch=7, resume_from="now") as new:
                with pytest.raises(Disconnected, match="4001"):
                    async for _ in old:
                        pass
                assert await refused(daemon.url, epoch=6, resume_from=old.sequence) == stale.format(6)
                assert await refused(daemon.url) == stale.format(0)
                await new.request(si.NodeRequest())
            assert list((await daemon.state())["nodes"]) == ["n1"]
        async with connect(daemon.url, rm_id="rm-1", epoch=7, resume_from="now"):
            pass
        async with connect(daemon.url, rm_id="rm-1", epoch=8):
            pass
        assert "expected at least 8" in await refused(daemon.url, epoch=7)


async def test_an_operator_hands_over() -> None:
    """``rm release`` needs no epoch; the epoch stays, also while another resource manager is registered, which has its own."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", epoch=3):
            pass
        said, _ = await run_command("rm", "release", "rm-1", "--url", daemon.url)
        assert said == "rm-1 is deregistered; another resource manager may register\n"
        assert "STALE_EPOCH" in await refused(daemon.url, epoch=2)
        async with connect(daemon.url, rm_id="rm-2", epoch=1) as other:
            await other.request(si.DeregisterResourceManagerRequest())
        assert "STALE_EPOCH" in await refused(daemon.url, epoch=2)
        async with connect(daemon.url, rm_id="rm-1", epoch=3):
            pass


async def test_an_operator_forgets_an_epoch(tmp_path: Path) -> None:
    """``--forget-epoch``: after a lost count any epoch may register, whether rm-1 is registered or not, also after a restart."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        async with connect(daemon.url, rm_id="rm-1", epoch=3):
            pass
        said, _ = await run_command("rm", "release", "rm-1", "--forget-epoch", "--url", daemon.url)
        assert said == "rm-1 is deregistered and its epoch is forgotten; another resource manager may register\n"
        async with connect(daemon.url, rm_id="rm-1", epoch=1) as rm:
            await rm.request(si.DeregisterResourceManagerRequest())
        async with connect(daemon.url, rm_id="rm-2", epoch=5) as other:
            await run_command("rm", "release", "rm-1", "--forget-epoch", "--url", daemon.url)
            await other.request(si.DeregisterResourceManagerRequest())
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(si.DeregisterResourceManagerRequest())
        assert "STALE_EPOCH" in await refused(daemon.url, rm_id="rm-2", epoch=4)


async def test_after_a_restart(tmp_path: Path) -> None:
    """The journal keeps it, also that of a registration which has ended."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        async with connect(daemon.url, rm_id="rm-1", epoch=3) as rm:
            await rm.request(si.DeregisterResourceManagerRequest())
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        assert "STALE_EPOCH" in await refused(daemon.url, epoch=2)
        async with connect(daemon.url, rm_id="rm-1", epoch=3):
            pass
