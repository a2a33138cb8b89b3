"""Reading a queue file without keeping the sockets waiting.

A text of thousands of queues takes most of a second, and a thread would not help: the YAML parser holds the interpreter. So
a large text is read by a process of its own, and what it sends back is put together bit by bit.
"""

from __future__ import annotations

import sys

import trio

from ykactor.core.config.model import SchedulerConfig
from ykactor.wire import queuefile
from ykactor.wire.queuefile.frames import FrameReader, encode

#: Characters that are read here, in less than 10 ms; a process takes a tenth of a second before it begins.
INLINE_MAX = 8_000
#: How long the process may take; far more than any text needs.
PATIENCE_S = 60.0


async def load_config(text: str, source: str) -> SchedulerConfig:
    """As ``queuefile.load``.

    Raises:
        ConfigError: the text is wrong.
        OSError, subprocess.CalledProcessError: the process could not be started, or ended badly.
        trio.TooSlowError: it did not end.
        ValueError: what it sent back makes no sense, as that of a version which was installed after we started.
    """
    if len(text) <= INLINE_MAX:
        return queuefile.load(text, source)
    command = [sys.executable, "-P", "-m", __name__, source]  # -P: import nothing from where the daemon was started
    with trio.fail_after(PATIENCE_S):
        process = await trio.run_process(command, stdin=text.encode(), capture_stdout=True, capture_stderr=True)
    reader = FrameReader(process.stdout, text)
    for _ in reader:
        await trio.lowlevel.checkpoint()
    return reader.config


def main() -> None:
    """The process: a text comes in, frames go out. ``sys.argv[1]`` is the name of the file, for messages."""
    loaded: SchedulerConfig | queuefile.ConfigError
    try:
        loaded = queuefile.load(sys.stdin.buffer.read().decode(), sys.argv[1])
    except queuefile.ConfigError as error:
        loaded = error
    sys.stdout.buffer.write(encode(loaded))


if __name__ == "__main__":
    main()
