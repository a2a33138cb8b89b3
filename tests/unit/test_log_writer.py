"""The stream of the log: it never blocks, loses only what it cannot keep, and says how much."""

import json
import os
import threading
from collections.abc import Iterator

import pytest

from ykactor.surfaces.cli.printer import Printer
from ykactor.surfaces.log.logs import FEW_LINES, LogWriter, configure

pytestmark = pytest.mark.usefixtures("logging_restored")

#: More than a pipe holds, so that a write blocks until somebody reads.
HUGE = "x" * 2**20 + "\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe: for reading and for writing."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def read_until(descriptor: int, text: str) -> list[str]:
    """Read lines until one contains ``text``."""
    with open(descriptor, closefd=False) as file:
        lines = []
        for line in file:
            lines.append(line)
            if text in line:
                break
        return lines


def test_lines_are_written_in_order(pipe: tuple[int, int]) -> None:
    """Lines that are written before ``close`` arrive, in their order."""
    writer = LogWriter(pipe[1])
    for number in range(1000):
        writer.write(f"{number}\n")
    writer.close(60)
    assert read_until(pipe[0], "999") == [f"{number}\n" for number in range(1000)]


def test_lines_are_bounded_by_their_characters(pipe: tuple[int, int]) -> None:
    """A few long lines count as much as many short ones; what is written makes room again."""
    writer = LogWriter(pipe[1], characters_max=2**20 + 101)
    configure("error", writer)
    writer.write(HUGE)
    while not writer._lines.empty():  # until the thread has it
        threading.Event().wait(0.01)
    for number in range(10):
        writer.write(f"{number}" + "x" * 38 + "\n")
    lines = read_until(pipe[0], "log_lines_lost")
    assert [line[0] for line in lines[1:-1]] == ["0", "1"]
    assert json.loads(lines[-1])["lines"] == 8


def test_lines_that_find_no_place_are_counted(pipe: tuple[int, int]) -> None:
    """A writer that is stuck keeps as many lines as allowed; when it goes on, one line says how many were lost."""
    writer = LogWriter(pipe[1], lines_max=4)
    configure("error", writer)
    writer.write(HUGE)
    while not writer._lines.empty():  # until the thread has it
        threading.Event().wait(0.01)
    for number in range(10):
        writer.write(f"{number}\n")
    lines = read_until(pipe[0], "log_lines_lost")
    assert lines[1:-1] == ["0\n", "1\n", "2\n", "3\n"]
    assert json.loads(lines[-1])["lines"] == 6


def test_close_does_not_wait_for_a_reader(pipe: tuple[int, int]) -> None:
    """``close`` returns when nobody reads, whether the queue is full or not."""
    writer = LogWriter(pipe[1], lines_max=1)
    writer.write(HUGE)
    while not writer._lines.empty():  # until the thread has it
        threading.Event().wait(0.01)
    for _ in range(2):
        writer.write(HUGE)
    writer.close(0.01)
    with open(pipe[0], closefd=False) as file:
        assert [file.readline(), file.readline()] == [HUGE, HUGE]
    writer.close(60)


def test_what_cannot_be_written_is_counted() -> None:
    """A reader that is gone ends neither the program nor the thread."""
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)
    writer.write("a line\n")
    writer.close(60)
    os.close(writing)
    assert writer._lost_in_thread == 1


def test_the_thread_rests_while_nobody_can_read(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost lines are told when a line was written again; the line that tells them would be lost too, and need another one."""
    attempts = list[bytes]()
    is_broken = True

    def write(descriptor: int, data: bytes) -> int:
        attempts.append(bytes(data))
        if is_broken:
            raise BrokenPipeError
        return real(descriptor, data)

    real = os.write
    monkeypatch.setattr("ykactor.surfaces.log.logs.os.write", write)
    writer = LogWriter(pipe[1])
    configure("error", writer)
    writer.write("one\n")
    threading.Event().wait(0.2)
    assert attempts == [b"one\n"]
    is_broken = False
    writer.write("two\n")
    lines = read_until(pipe[0], "log_lines_lost")
    assert lines[0] == "two\n"
    assert json.loads(lines[-1])["lines"] == 1
    writer.close(60)


def test_lines_of_a_busy_program_are_written_together(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first lines are written as they come; what comes after them, until the window is over, is written with one call."""
    writes, rested, rest, written = list[bytes](), threading.Event(), threading.Event(), threading.Semaphore(0)

    def write(descriptor: int, data: bytes) -> int:
        writes.append(bytes(data))
        written.release()
        return real(descriptor, data)

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 1000
        rested.set()
        rest.wait()

    real = os.write
    monkeypatch.setattr("ykactor.surfaces.log.logs.WINDOW_S", 1000.0)
    monkeypatch.setattr("ykactor.surfaces.log.logs.os.write", write)
    monkeypatch.setattr("ykactor.surfaces.log.logs.time.sleep", sleep)
    writer = LogWriter(pipe[1])
    few = [f"{number}\n".encode() for number in range(FEW_LINES + 1)]
    for line in few:
        writer.write(line.decode())
        written.acquire()
    rested.wait()
    for number in range(20):
        writer.write(f"more {number}\n")
    rest.set()
    writer.close(60)
    assert writes == [*few, "".join(f"more {number}\n" for number in range(20)).encode()]


def test_lines_for_people_wait_for_nobody(pipe: tuple[int, int]) -> None:
    """A command that others wait for goes on while its output is not read, which is more than a pipe holds."""
    printer, lines = Printer(pipe[1]), [f"line {number} of the status, for people" for number in range(3000)]
    for line in lines:
        printer.say(f"{line}\x1b")
    assert read_until(pipe[0], lines[-1]) == [f"{line}\\x1b\n" for line in lines]
    printer.close()
