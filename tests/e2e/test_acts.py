"""The verbs of an operator, run as users run them against the real daemon."""

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result
from daemon import application, asks, next_allocated, next_event, node, real_daemon
from daemonhere import daemon_here

from ykactor.client import connect, follow
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a}, {name: b}]
"""


async def run(*arguments: str | Path, expect: int = exit_codes.OK) -> Result:
    """A command in this process."""
    invoke = CliRunner().invoke
    result = await trio.to_thread.run_sync(lambda: invoke(main, [*map(str, arguments)], prog_name="ykactor"))
    assert result.exit_code == expect, result.output
    return result


async def test_all_verbs(tmp_path: Path) -> None:
    """OP-1, OP-2, OP-8 to OP-12: several names at a time; holds and priorities survive a restart; the story tells of each."""
    file, state = tmp_path / "queues.yaml", tmp_path / "state"
    file.write_text(QUEUES)
    options = "--config", file, "--state-dir", state
    async with real_daemon(*options) as daemon, connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url) as feed:

        async def act(verb: str, *arguments: str) -> list[str]:
            return (await run(verb, "--url", daemon.url, *arguments)).stdout.splitlines()

        for request in (node(), node("n2"), application("app-1", "root.a"), application("app-2", "root.b"), asks("t1", "t2")):
            await rm.request(request)
        assert len(await next_allocated(rm, 2)) == 2
        assert await act("drain", "n1", "n2") == ["n1 drains", "n2 drains"]
        assert await act("hold", "app-1", "root.b") == ["app-1 is held", "root.b is held"]
        await rm.request(asks("t3", "t4"))
        await rm.request(asks("u1", of="app-2"))
        assert await act("undrain", "n1", "n2") == ["n1 is schedulable", "n2 is schedulable"]
        assert await act("priority", "app-1/t3", "app-2", "--", "-5") == ["app-1/t3 has priority -5", "app-2 has priority -5"]
        assert (await next_event(feed, "QUEUE_HOLD")).message == "held by an operator"
        assert (await next_event(feed, "APP_PRIORITY")).message == "priority 0 -> -5"
        assert await act("cancel", "t1", "t4", "--app", "app-1") == ["t1 is being released", "t4 is cancelled"]
        assert await act("move", "app-2", "root.a") == ["app-2 moved to root.a"]
        assert await next_allocated(rm) == [("u1", "n1")]
        await daemon.stop()
    async with real_daemon(*options) as daemon:
        found = await daemon.state()
        (pending,) = found["applications"]["app-1"]["pending"]
        assert pending["reason"].startswith("held by an operator since 20")
        assert (pending["allocationKeys"], found["applications"]["app-1"]["priority"]) == (["t3"], -5)
        assert found["queues"]["root.b"]["held"]["by"] == "an operator"
        shown = (await run("story", "app-1", "--url", daemon.url)).stdout
        assert "now: application app-1 is Running in root.a, held by an operator since 20" in shown
        wide = (await run("queues", "-o", "wide", "--url", daemon.url)).stdout.splitlines()
        assert [line.split()[1] for line in wide if "an operator" in line] == ["root.b"]
        await run("release", "app-1", "root.b", "--url", daemon.url)
        assert "held" not in (await daemon.state())["applications"]["app-1"]
        await daemon.stop()
    story = (await run("story", "app-1", "--state-dir", state)).stdout
    for cause in ("hold application app-1", "give t3 of app-1 the priority -5", "cancel t4 of app-1", "end the hold of"):
        assert f"because of an operator, to {cause}" in story
    audit = (await run("audit", "--state-dir", state)).stdout
    for told in ("not held -> held by an operator", "priority 0 -> priority -5", "pending -> nothing", "-> being released"):
        assert told in audit
    await run("replay", state)


async def test_refused_acts() -> None:
    """Each is told on standard error, in a line; the others are done; the exit code is 1."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node())
        result = await run("drain", "n9", "n1", "--url", url, expect=exit_codes.FAILED)
        assert result.stdout == "n1 drains\n"
        assert result.stderr == "n9 refused: failed to find node n9 in partition default; ykactor nodes lists them\n"
        result = await run("cancel", "app-9", "app-9/t1", "--url", url, expect=exit_codes.FAILED)
        assert result.stderr.count("failed to find application app-9") == 2
        result = await run("hold", "root.x", "--partition", "gpu", "--url", url, expect=exit_codes.FAILED)
        assert result.stderr == "root.x refused: failed to find partition gpu; ykactor partitions lists them\n"
        result = await run("cancel", "app-9", "--partition", "gpu", "--url", url, expect=exit_codes.FAILED)
        assert result.stderr == "Error: nothing was done: failed to find partition gpu\n"
    result = await run("release", "app-1", "--url", url, expect=exit_codes.FAILED)
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1


async def test_what_cancelling_has_done() -> None:
    """OP-10: what runs is being released until the resource manager confirms it; an application with nothing left has ended."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node())
        for name, key in ("app-1", "t1"), ("app-2", "t2"):
            await rm.request(application(name, "root.default"))
            await rm.request(asks(key, of=name))
        assert len(await next_allocated(rm, 2)) == 2
        assert (await run("cancel", "app-1/t1", "app-1", "--url", url)).stdout == "app-1/t1 is being released\napp-1 is ending\n"
        again = await run("cancel", "app-1/t1", "app-1", "--url", url, expect=exit_codes.FAILED)
        already = ("t1 of app-1 is being released already", "application app-1 is failing already")
        assert again.stderr == f"app-1/t1 refused: {already[0]}\napp-1 refused: {already[1]}\n"
        ended = si.AllocationRelease(application_id="app-2", allocation_key="t2")
        await rm.request(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[ended])))
        assert (await run("cancel", "app-2", "--url", url)).stdout == "app-2 is cancelled\n"


@pytest.mark.parametrize("verb", ["cancel", "priority"])
async def test_a_name_of_a_task_does_not_mean_the_application(verb: str) -> None:
    """OP-15: ``asks -o name`` names the tasks; their keys alone end no application, unless it is said that they mean one."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm-1") as rm:
        number = ("5",) if verb == "priority" else ()
        await rm.request(node())
        for name, keys in ("t1", ["t2"]), ("t2", ["t1"]), ("t3", ["t4"]):
            await rm.request(application(name, "root.default"))
            await rm.request(asks(*keys, of=name, vcore=99_000))
        named = (await run("asks", "-o", "name", "--url", url)).stdout.split()
        assert named == ["t1/t2", "t2/t1", "t3/t4"]
        for bare in "t1", "t4":
            result = await run(verb, "t3", bare, *number, "--url", url, expect=exit_codes.FAILED)
            what = f"{ {'t1': 't2/t1', 't4': 't3/t4'}[bare] } is a task"
            how = "write it like that, as APP/ASK; or give --whole if the names are those of applications"
            assert (result.stdout, result.stderr) == ("", f"Error: nothing was done: {what}; {how}\n")
        assert (await run("priorities", "-o", "name", "--url", url)).stdout.split() == named
        both = await run(verb, "--whole", "--app", "t1", "t1", *number, "--url", url, expect=exit_codes.USAGE)
        assert "found --app and --whole, expected one of them" in both.stderr
        done = "is cancelled" if verb == "cancel" else "has priority 5"
        assert (await run(verb, "--whole", "t1", *number, "--url", url)).stdout == f"t1 {done}\n"
        assert (await run(verb, *named[1:], *number, "--url", url)).stdout == "".join(f"{name} {done}\n" for name in named[1:])


@pytest.mark.parametrize("names", [("app-1/",), ("app-1/t1", "app-1/"), ("--app", "app-1", "")])
@pytest.mark.parametrize("verb", ["cancel", "priority"])
async def test_an_empty_key_does_not_mean_the_application(verb: str, names: tuple[str, ...]) -> None:
    """An empty key, such as from an unset shell variable, is refused, and nothing is done."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(application("app-1", "root.default"))
        await rm.request(asks("t1"))
        number = ("5",) if verb == "priority" else ()
        result = await run(verb, *names, *number, "--url", url, expect=exit_codes.USAGE)
        assert "without the key of a task, expected APP, APP/ASK, or --app APP with ASK" in result.stderr
        shown = (await run("app", "app-1", "--url", url)).stdout
        assert "Accepted" in shown
        assert "Priority     0" in shown
