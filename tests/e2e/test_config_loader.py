"""Small texts are read here, large ones by a process of their own; nobody can tell the difference but by the time they take."""

import base64
import gc
import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import queuetexts
import trio
from daemonhere import apply_config, daemon_here
from generate import generate
from partitiontexts import several
from world import limit, queue, tree

from ykactor.core.messages.states import QueueState
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.surfaces.files import config_loader
from ykactor.surfaces.files.config_loader import INLINE_MAX, load_config
from ykactor.surfaces.files.helper_process import HelperProcessError
from ykactor.wire import queuefile
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.si.protocol_error import ProtocolError

SAMPLES = {path.stem: path.read_text() for path in queuetexts.SAMPLES}
SMALL = tree(queue("a"))


@cache
def generated() -> str:
    """1500 queues."""
    return generate(1, queues=1500, asks=1).config


def partitions() -> str:
    """Three with 100 queues each."""
    return several(**{f"p{n}": [queue(f"q{m}", limits=[limit("a", vcore=m + 1)]) for m in range(100)] for n in range(3)})


def umlauts() -> str:
    """Letters that are more than a byte."""
    return json.dumps(json.loads(tree(queue("a", p={"note": "ü" * INLINE_MAX}))), ensure_ascii=False)


def padded(text: str) -> str:
    """The same configuration in a text that is too large to be read here."""
    return text + "\n#" + "." * INLINE_MAX


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The commands that are started."""
    started: list[object] = []
    run_process = trio.run_process

    async def counted(command: object, **options: object) -> object:
        started.append(command)
        return await run_process(command, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(config_loader.trio, "run_process", counted)
    return started


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SAMPLES.items()] + [""])
async def test_a_small_text_is_read_here_and_a_large_one_elsewhere(processes: list[object], text: str) -> None:
    """Both give what ``queuefile.load`` gives, in every field."""
    assert len(text) <= INLINE_MAX or text == SAMPLES["queues"]
    assert await load_config(text, "q.yaml") == queuefile.load(text, "q.yaml")
    assert len(processes) == (len(text) > INLINE_MAX)
    large = padded(text or queuefile.DEFAULT_TEXT)
    processes.clear()
    assert await load_config(large, "q.yaml") == queuefile.load(large, "q.yaml")
    assert len(processes) == 1


@pytest.mark.parametrize("make", [generated, partitions, umlauts])
async def test_large_texts(processes: list[object], make: Callable[[], str]) -> None:
    """Whatever makes them large."""
    text = make()
    assert await load_config(text, "q.yaml") == queuefile.load(text, "q.yaml")
    assert len(processes) == 1


async def test_a_compressed_text_is_read_elsewhere(processes: list[object]) -> None:
    """CF-87: few characters can stand for millions."""
    content = base64.b64encode(gzip.compress(queuefile.DEFAULT_TEXT.encode())).decode()
    text = f"kind: ConfigMap\nbinaryData: {{queues.yaml.gz: {content}}}\n"
    assert await load_config(text, "q.yaml") == queuefile.load(text, "q.yaml")
    assert len(processes) == 1


async def test_a_text_with_anchors_is_read_elsewhere(processes: list[object]) -> None:
    """8 kB can stand for 22,000 queues, which take a second."""
    text = "partitions: [{name: default, queues: [{name: a, queues: &all [{name: c}]}, {name: b, queues: *all}]}]"
    assert await load_config(text, "q.yaml") == queuefile.load(text, "q.yaml")
    assert len(processes) == 1


async def test_where_large_begins(processes: list[object]) -> None:
    """A text as long as the bound is still read in this process."""
    text = SMALL.ljust(INLINE_MAX)
    await load_config(text, "q.yaml")
    assert processes == []
    await load_config(text + " ", "q.yaml")
    assert len(processes) == 1


WRONG = """\
partitions:
  - name: default
    colour: red
    queues:
      - name: root
        maxapplications: many
        queues:
          - {name: a, properties: {priority.offset: x}}
          - {name: a}
"""


@pytest.mark.parametrize("text", [WRONG, "partitions: [{}", "", WRONG.replace("many", "1").replace("colour: red", "")])
async def test_every_mistake_arrives(processes: list[object], text: str) -> None:
    """Mistakes arrive with source, line, column, path and code, and with the warnings, in the order of ``load``."""
    large = (text or "partitions: 3") + "\n#" + "." * INLINE_MAX
    with pytest.raises(ConfigError) as expected:
        queuefile.load(large, "dir/q.yaml")
    with pytest.raises(ConfigError) as caught:
        await load_config(large, "dir/q.yaml")
    assert len(processes) == 1
    assert caught.value.mistakes == expected.value.mistakes
    assert caught.value.warnings == expected.value.warnings
    assert str(caught.value) == str(expected.value)
    assert all(mistake.source == "dir/q.yaml" and mistake.line and mistake.column for mistake in caught.value.mistakes)


async def test_warnings_of_a_good_text_arrive() -> None:
    """A value that is replaced by its default is reported with its place."""
    text = padded(tree(queue("a", p={"priority.offset": "x"})))
    assert (await load_config(text, "q.yaml")).warnings == queuefile.load(text, "q.yaml").warnings != ()


# ---- others get their turns


async def test_the_loop_goes_on() -> None:
    """While a large text is read, a task that wants a turn again and again gets many; while the same text is read here, none."""
    text = generated()
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    longest_here = longest = 0.0
    gc.collect()
    async with trio.open_nursery() as nursery:
        gc.disable()  # in a process full of other tests a collection takes longer than anything that is measured here
        nursery.start_soon(tick)
        await trio.lowlevel.checkpoint()

        before, began = turns, time.thread_time()  # other programs may take the processor away from us
        queuefile.load(text)
        longest_here = time.thread_time() - began
        assert turns == before

        async def watch() -> None:
            nonlocal longest
            latest = time.thread_time()
            while True:
                await trio.lowlevel.checkpoint()
                longest, latest = max(longest, time.thread_time() - latest), time.thread_time()

        nursery.start_soon(watch)
        await trio.lowlevel.checkpoint()
        before = turns
        await load_config(text, "q.yaml")
        assert turns - before > 100
        gc.enable()
        nursery.cancel_scope.cancel()
    assert longest < longest_here


# ---- a process that does not work


def program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


BROKEN = {
    "missing": None,
    "fails": "cat >/dev/null; exit 3",
    "fails at once": "exit 3",
    "killed": "cat >/dev/null; kill -9 $$",
    "says nothing": "cat >/dev/null",
    "says half": "cat >/dev/null; printf '\\0\\0\\1\\0abc'",
    "says nonsense": "cat >/dev/null; echo nonsense and more",
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_process_that_does_not_work_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    """The request is refused with a code, what runs goes on, small texts are still taken, and large ones once it works again."""
    large = padded(tree(queue("a"), queue("b"))).ljust(300_000)  # more than a pipe holds
    body = BROKEN[how]
    async with daemon_here(SMALL) as (daemon, _):
        running = daemon.config
        registry = daemon.registry(next(iter(daemon.partitions)))
        config, queues = registry.config, dict(registry.queues)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(tmp_path / "none") if body is None else program(tmp_path / "python", body))
            with pytest.raises(ProtocolError) as caught:
                await apply_config(daemon, large, "")
            assert (caught.value.code, caught.value.path) == ("UNAVAILABLE", "config")
            assert caught.value.message.startswith("the process that reads the configuration failed: ")
            assert daemon.config is running
            assert registry.config is config
            assert registry.queues == queues
            await apply_config(daemon, tree(queue("a"), queue("c")), "")
        assert await apply_config(daemon, large, "") == queuefile.load(large).checksum
        assert set(registry.queues) == {"root", "root.a", "root.b", "root.c"}


async def test_what_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exceptions are those of the docstring."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(HelperProcessError, match="none"):
        await load_config(padded(SMALL), "q.yaml")
    monkeypatch.setattr(sys, "executable", program(tmp_path / "python", BROKEN["fails"]))
    with pytest.raises(HelperProcessError, match="exit status 3"):
        await load_config(padded(SMALL), "q.yaml")


def runs(pid: int) -> bool:
    """True if there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_cancelled_load_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever wanted it is gone: the process is ended, and the next configuration is taken."""
    pid_file = tmp_path / "pid"
    async with daemon_here(SMALL) as (daemon, _):
        with monkeypatch.context() as patch:
            body = f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"
            patch.setattr(sys, "executable", program(tmp_path / "python", body))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(apply_config, daemon, padded(SMALL), "")
                while not pid_file.exists():  # noqa: ASYNC110  # a process cannot set an event
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
        with trio.fail_after(180):
            while runs(int(pid_file.read_text())):  # noqa: ASYNC110  # a process cannot set an event
                await trio.sleep(0.01)
        assert await apply_config(daemon, tree(queue("z")), "") == queuefile.load(tree(queue("z"))).checksum


async def test_whoever_goes_away_leaves_no_half_of_a_change() -> None:
    """However far it had come when its session ended: what is said to run does run, in every partition, and all goes on."""
    old = several(default=[queue("a")], gone=[queue("a")])
    new = several(default=[queue("b")], come=[queue("b")], also=[queue("b")])
    async with daemon_here(SMALL) as (daemon, _):
        for turns in range(80):
            await apply_config(daemon, old, "")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(apply_config, daemon, new, "")
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with pytest.raises(ProtocolError, match="the configuration in force has"):
                await apply_config(daemon, "", "another")  # behind what may still be under way
            leaf = "root.a" if daemon.config.text == old else "root.b"
            assert list(daemon.partitions) == [partition.name for partition in daemon.config.partitions]
            for name in daemon.partitions:
                assert daemon.registry(name).queues[QueuePath(leaf)].state is QueueState.ACTIVE


async def test_a_partition_that_breaks_while_it_changes() -> None:
    """An invariant that breaks is our mistake and comes out of ``Daemon.run``; whoever waits for the change does not hang."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("queues cannot be counted")

    with pytest.raises(BaseExceptionGroup) as failure:  # noqa: PT012  # it comes out of the whole block
        async with daemon_here(SMALL) as (daemon, _):
            await apply_config(daemon, several(default=[queue("a")], gpu=[queue("a")]), "")
            daemon._partitions.actors[PartitionName("gpu")].core.ingest = broken  # type: ignore[assignment, method-assign]
            await apply_config(daemon, several(default=[queue("b")], gpu=[queue("b")]), "")
    assert failure.group_contains(ZeroDivisionError)


async def test_changes_come_one_after_the_other() -> None:
    """Two at the same time, one of them large: each is whole, and the configuration that runs in the end is the reported one."""
    large = padded(several(default=[queue("a"), queue("b")], gpu=[queue("g")]))
    small = several(default=[queue("a"), queue("c")], arm=[queue("g")])
    for texts in ((large, small), (small, large)):
        answers: list[str] = []
        async with daemon_here(SMALL) as (daemon, _):

            async def apply(text: str) -> None:
                answers.append(await apply_config(daemon, text, ""))  # noqa: B023

            async with trio.open_nursery() as nursery:
                for text in texts:
                    nursery.start_soon(apply, text)
            assert sorted(answers) == sorted(queuefile.load(text).checksum for text in texts)
            assert daemon.config.checksum == answers[-1]
            assert list(daemon.partitions) == [partition.name for partition in daemon.config.partitions]
