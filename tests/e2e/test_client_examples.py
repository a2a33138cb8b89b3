"""The programs of ``config/examples`` run as they stand, against a daemon with the shipped sample configuration."""

import runpy
import sys
from pathlib import Path

import pytest
import trio
from daemon import node
from daemonhere import daemon_here

from ykactor.client import connect

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "config" / "examples"
#: How the names of programs end, by what they run on.
FLAVOURS = {"trio": "", "asyncio": "_asyncio", "plain": "_plain"}


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=FLAVOURS)
async def test_each_program_does_what_it_says(flavour, monkeypatch, capsys):
    """A resource manager, a follower that reads what it has caused, and an operator, also beside another resource manager."""

    async def output(name):
        monkeypatch.setattr(sys, "argv", [name, url])
        program = str(EXAMPLES / f"{name}{flavour}.py")
        await trio.to_thread.run_sync(lambda: runpy.run_path(program, run_name="__main__"))
        return capsys.readouterr().out.splitlines()

    async with daemon_here((ROOT / "config" / "queues.yaml").read_text()) as (_, url):
        assert await output("resource_manager") == ["t1 runs on n1"]
        assert (await output("follower"))[-1] == "app-1 has t1"
        with pytest.raises(SystemExit, match=r"^not drained: REFUSED: nodes: failed to find node n1"):
            await output("drain_node")
        async with connect(url, rm_id="another") as rm:
            await rm.request(node("n1"))
            assert await output("drain_node") == ["n1 is drained"]


def test_the_handbook_names_each_program():
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert len(programs) == 9
    chapter = (ROOT / "ykactor" / "handbook" / "protocol.md").read_text()
    assert all(f"/config/examples/{name})" in chapter for name in programs)
