"""Three ways to write one event: JSON line, journal line, coloured text."""

import io
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from ykactor.surfaces.log.logs import configure, get_logger, log_event

log = get_logger("ykactor.surfaces.example")

pytestmark = pytest.mark.usefixtures("logging_restored")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_lines() -> None:
    """Off a terminal each event is one JSON object: time, level, logger, event, then its keys in order."""
    stream = io.StringIO()
    configure("info", stream)
    log_event(log, logging.INFO, "config_applied", queue="root.a", path=Path("/etc/q"), name="two\nlines")
    (line,) = stream.getvalue().splitlines()
    seen = json.loads(line)
    assert seen.pop("time").endswith("Z")
    assert list(seen.items()) == [
        ("level", "info"),
        ("logger", "ykactor.surfaces.example"),
        ("event", "config_applied"),
        ("queue", "root.a"),
        ("path", "/etc/q"),
        ("name", "two\nlines"),
    ]


def test_level_is_ours_and_libraries_are_quiet() -> None:
    """The level is for this package (in any case); libraries are heard from warnings on, as lines without keys."""
    stream = io.StringIO()
    configure("DEBUG", stream)
    log_event(log, logging.DEBUG, "ask_parked")
    logging.getLogger("library").info("chatter")
    logging.getLogger("library").warning("lost %d", 3)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["ask_parked", "lost 3"]


def test_configured_again_replaces() -> None:
    """A second call moves the log and its level; nothing is written twice."""
    first, second = io.StringIO(), io.StringIO()
    configure("info", first)
    configure("error", second)
    log_event(log, logging.WARNING, "session_dropped")
    log_event(log, logging.ERROR, "partition_restarted")
    assert first.getvalue() == ""
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["partition_restarted"]


def test_unknown_level() -> None:
    """A level that does not exist is the operator's mistake."""
    with pytest.raises(ValueError, match="LOUD"):
        configure("loud", io.StringIO())


def test_exception_stays_on_the_line() -> None:
    """A traceback is a key of the JSON object, so a line is an event."""
    stream = io.StringIO()
    configure("info", stream)
    try:
        raise RuntimeError("invariant")
    except RuntimeError:
        log.exception("partition_crashed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("RuntimeError: invariant")


def test_journal_priorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines begin with the syslog priority when the stream is the journal's."""
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        configure("debug", stream)
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
            log_event(log, level, "said")
        stream.seek(0)
        assert [line[:4] for line in stream] == ["<7>{", "<6>{", "<4>{", "<3>{", "<2>{"]


def test_redirected_is_not_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JOURNAL_STREAM that was only inherited adds no priorities to a file."""
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")
    with (tmp_path / "log").open("w+") as stream:
        configure("info", stream)
        log_event(log, logging.INFO, "said")
        stream.seek(0)
        assert stream.read().startswith("{")


def test_terminal() -> None:
    """Level, event and keys are coloured on a terminal; blanks and control characters are quoted."""
    stream = Terminal()
    configure("info", stream)
    log_event(log, logging.WARNING, "app_rejected", app="app-1", reason="no such queue", user="\033[2J", queue="")
    clock, rest = stream.getvalue().split(" ", 1)
    assert len(clock) == len("12:00:00")
    assert rest == ("\033[33mwarning \033[0m app_rejected app=app-1 reason='no such queue' user='\\x1b[2J' queue=''\n")


def test_terminal_shows_tracebacks() -> None:
    """A traceback follows its event on a terminal."""
    stream = Terminal()
    configure("info", stream)
    try:
        raise RuntimeError("invariant")
    except RuntimeError:
        log.error("partition_crashed", exc_info=sys.exc_info())
    assert stream.getvalue().endswith("RuntimeError: invariant\n")


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["text", "JSON"])
def test_nothing_of_others_commands_a_terminal(stream: io.StringIO) -> None:
    """Neither a key, nor a message of a library, nor a traceback; JSON says the same, also if somebody reads it on a terminal."""
    configure("info", stream)
    evil = "a\x1b[2J\x9b31m\u202e\x7f"
    log_event(log, logging.WARNING, "app_rejected", app=evil)
    try:
        raise RuntimeError(evil)
    except RuntimeError:
        logging.getLogger("library").error("found %s", evil, exc_info=sys.exc_info())
    lines = stream.getvalue().replace("\033[33m", "").replace("\033[31m", "").replace("\033[0m", "").splitlines()
    assert all(line.isprintable() for line in lines)
    if not stream.isatty():
        assert json.loads(lines[0])["app"] == evil
