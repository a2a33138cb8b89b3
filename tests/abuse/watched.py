"""``ykactor`` that says how long a task has held its loop: ``watched.py ARGUMENT...``, with the arguments of ``ykactor``.

A hold is counted in CPU time, so that other processes of the machine do not count. Those of more than ``HELD_S`` are lines
of the log with the event ``held``.
"""

import json
import os
import sys
import time
from functools import partial
from typing import Any

import trio

from ykactor.surfaces.cli.main import main

HELD_S = 0.02


class Holds(trio.abc.Instrument):
    """Notes long steps of tasks."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def before_task_step(self, task: Any) -> None:
        self._began_s = time.thread_time()

    def after_task_step(self, task: Any) -> None:
        held_s = time.thread_time() - self._began_s
        if held_s > HELD_S:
            line = json.dumps({"event": "held", "s": round(held_s, 3), "task": task.name})
            os.write(sys.stderr.fileno(), f"{line}\n".encode())  # at once: another thread writes the log


if __name__ == "__main__":
    trio.run = partial(trio.run, instruments=[Holds()])
    main()
