"""The config watcher on real files, with the real clock and an absolute timeout for each test."""

# ruff: noqa: ASYNC240  # a few bytes in a temporary directory; the order of writes is what these tests are about

import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ykactor.surfaces.files import watcher as watcher_module
from ykactor.surfaces.files.regular import read_regular
from ykactor.surfaces.files.watcher import ConfigWatcher, TryAgainError
from ykactor.wire.si.lengths import CONFIG_MAX

TIMEOUT_S = 180.0
#: Longer than a change takes to be seen and settled (0.2 to 0.5 s): then "nothing came" means something.
QUIET_S = 1.0


class Watched:
    """A watcher under test: what it delivered, and how to end it."""

    def __init__(self, watcher: ConfigWatcher, stop: trio.Event, texts: trio.MemoryReceiveChannel[str]) -> None:
        self.watcher = watcher
        self.stop = stop
        self.next_text = texts.receive
        self._texts = texts

    async def is_quiet(self) -> bool:
        with trio.move_on_after(QUIET_S) as scope:
            await self._texts.receive()
        return scope.cancelled_caught


@asynccontextmanager
async def watching(path: Path, known: str) -> AsyncIterator[Watched]:
    send, receive = trio.open_memory_channel[str](10)
    stop = trio.Event()
    with trio.fail_after(TIMEOUT_S), send, receive:
        async with trio.open_nursery() as nursery:
            watcher = ConfigWatcher(path, known, lambda text, _: send.send(text))
            await nursery.start(watcher.run, stop)
            yield Watched(watcher, stop, receive)
            stop.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text("one")
    return file


async def nothing(_text: str, _is_asked: bool) -> None:
    """Apply no text."""


def replace(path: Path, text: str) -> None:
    """Replace a file like editors and deployment tools: write next to the file, rename over it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


async def logged(caplog: pytest.LogCaptureFixture, event: str) -> None:
    """Return when ``event`` was logged."""
    while event not in caplog.messages:  # noqa: ASYNC110  # the log cannot set an event
        await trio.sleep(0.02)


async def test_in_place_write(path: Path) -> None:
    """A file written in place is delivered."""
    async with watching(path, "one") as watched:
        path.write_text("two")
        assert await watched.next_text() == "two"


async def test_every_atomic_replacement(path: Path) -> None:
    """Each of several files renamed into place is seen, not only the first."""
    async with watching(path, "one") as watched:
        for text in ("two", "three", "four"):
            replace(path, text)
            assert await watched.next_text() == text


async def test_kubernetes_link_swap(tmp_path: Path) -> None:
    """A ConfigMap's update, which only swaps the ``..data`` link beside the file, is seen."""
    for version, text in (("..v1", "one"), ("..v2", "two")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "queues.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..v1")
    path = tmp_path / "queues.yaml"
    path.symlink_to("..data/queues.yaml")
    async with watching(path, "one") as watched:
        (tmp_path / "..data_tmp").symlink_to("..v2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        assert await watched.next_text() == "two"


async def test_deleted_and_recreated(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A vanished file is logged once and delivers nothing; it stays watched and is delivered when it is back."""
    async with watching(path, "one") as watched:
        path.unlink()
        await logged(caplog, "config_vanished")
        (path.parent / "other").write_text("another event in the directory")
        assert await watched.is_quiet()
        path.write_text("two")
        assert await watched.next_text() == "two"
        assert caplog.messages.count("config_vanished") == 1


async def test_reload_of_a_missing_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reload is never silent: that the file is still missing is logged again, with what happens to the configuration."""
    async with watching(path, "one") as watched:
        path.unlink()
        await logged(caplog, "config_vanished")
        caplog.clear()
        watched.watcher.reload()
        await logged(caplog, "config_vanished")
        assert "the running configuration stays in force" in str(vars(caplog.records[-1]))
        assert await watched.is_quiet()
        assert caplog.messages.count("config_vanished") == 1


async def test_two_fast_changes(path: Path) -> None:
    """The last one of several changes in quick succession is delivered, once."""
    async with watching(path, "one") as watched:
        replace(path, "two")
        replace(path, "three")
        assert await watched.next_text() == "three"
        assert await watched.is_quiet()


async def test_half_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is still being written is delivered when its writer has stopped."""
    monkeypatch.setattr(watcher_module, "SETTLE_S", 1.0)  # so that a busy machine is not taken for a writer that stopped
    async with watching(path, "one") as watched:
        with path.open("w") as file:
            for _ in range(40):
                file.write("line\n")
                file.flush()
                await trio.sleep(0.02)  # the writer's pace, not a wait for us
        assert await watched.next_text() == "line\n" * 40


async def test_same_content_is_no_change(path: Path) -> None:
    """A touched or rewritten file with the same content, and other files of the directory, deliver nothing."""
    async with watching(path, "one") as watched:
        replace(path, "one")
        path.touch()
        (path.parent / "other.yaml").write_text("two")
        assert await watched.is_quiet()


async def test_changed_before_the_watch(path: Path) -> None:
    """A change between the caller's reading and the watch is not lost."""
    async with watching(path, "zero") as watched:
        assert await watched.next_text() == "one"


async def test_changed_during_a_delivery(path: Path) -> None:
    """Deliveries do not overlap, and a change during one comes afterwards."""
    begun, proceed, stop = trio.Event(), trio.Event(), trio.Event()
    applied: list[str] = []

    async def apply(text: str, _: bool) -> None:
        begun.set()
        await proceed.wait()
        applied.append(text)
        if text == "three":
            stop.set()

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(ConfigWatcher(path, "one", apply).run, stop)
            replace(path, "two")
            await begun.wait()
            replace(path, "three")
            proceed.set()
    assert applied == ["two", "three"]


async def test_reload_delivers_unchanged(path: Path) -> None:
    """``reload`` (SIGHUP) delivers the file even though it did not change; after the end it does nothing."""
    async with watching(path, "one") as watched:
        watched.watcher.reload()
        assert await watched.next_text() == "one"
    watched.watcher.reload()


async def test_not_text(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is not UTF-8 is logged and stays watched."""
    async with watching(path, "one") as watched:
        path.write_bytes(b"\xff\xfe")
        await logged(caplog, "config_unreadable")
        path.write_text("two")
        assert await watched.next_text() == "two"


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_ends(path: Path, how: str) -> None:
    """Both setting ``stop`` and cancelling end the watcher, and its thread."""
    stop = trio.Event()
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(ConfigWatcher(path, "one", nothing).run, stop)
            if how == "stop":
                stop.set()
            else:
                nursery.cancel_scope.cancel()


async def test_an_empty_file_is_passed_over(path: Path) -> None:
    """A writer that truncates first, or a full disk, must not put the default into force (CF-51); what comes next counts."""
    async with watching(path, "one") as watched:
        path.write_text("")
        assert await watched.is_quiet()
        path.write_text("two")
        assert await watched.next_text() == "two"


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "huge"])
async def test_what_is_no_regular_file_is_passed_over(path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A FIFO without a writer, an endless device, a directory and a huge file are logged and hold up nothing."""
    async with watching(path, "one") as watched:
        path.unlink()
        match kind:
            case "fifo":
                os.mkfifo(path)
            case "device":
                path.symlink_to("/dev/zero")
            case "directory":
                path.mkdir()
            case "huge":
                with path.open("wb") as file:
                    file.truncate(CONFIG_MAX + 1)
        watched.watcher.reload()
        assert await watched.is_quiet()
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == ["config_unreadable"]
        path.rmdir() if kind == "directory" else path.unlink()
        path.write_text("two")
        watched.watcher.reload()
        assert await watched.next_text() == "two"


@pytest.mark.parametrize("is_forced", [False, True])
async def test_a_shortage_passes_by_itself(
    path: Path, is_forced: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that could not be read for want of file descriptors is read again without another event; so is a reload."""
    monkeypatch.setattr(watcher_module, "RETRY_S", 0.05)
    lacks = [OSError(errno.EMFILE, "Too many open files")] * 3

    def read(path: Path) -> bytes:
        if lacks:
            raise lacks.pop()
        return read_regular(path)

    monkeypatch.setattr(watcher_module, "read_regular", read)
    async with watching(path, "one" if is_forced else "zero") as watched:
        if is_forced:
            watched.watcher.reload()
        assert await watched.next_text() == "one"
    assert caplog.messages.count("config_unreadable") == 1


async def test_a_text_that_could_not_be_applied_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``TryAgainError`` brings the same text again, without another event."""
    monkeypatch.setattr(watcher_module, "RETRY_S", 0.05)
    stop = trio.Event()
    texts: list[str] = []

    async def changed(text: str, _: bool) -> None:
        texts.append(text)
        if len(texts) < 3:
            raise TryAgainError
        stop.set()

    with trio.fail_after(TIMEOUT_S):
        await ConfigWatcher(path, "zero", changed).run(stop)
    assert texts == ["one"] * 3


async def test_a_thread_that_is_stuck_in_reading_holds_up_no_cancellation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system that does not answer: the watcher ends without the thread."""
    reading, answer = threading.Event(), threading.Event()

    def read(_: Path) -> bytes:
        reading.set()
        answer.wait()
        return b""

    monkeypatch.setattr(watcher_module, "read_regular", read)
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(ConfigWatcher(path, "one", nothing).run, trio.Event())
            await trio.to_thread.run_sync(reading.wait)
            nursery.cancel_scope.cancel()
    answer.set()
