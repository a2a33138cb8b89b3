"""``forkserver.py FD``: imports ``ykactor`` once, then forks one process of it for each request at the socket ``FD``.

A request is one message: the JSON text ``[arguments, environment]`` and the descriptors of standard input, output and error,
and of a report. The report gets the process's number and later its exit code (negative: the signal), each as four bytes.
"""

import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import time

from ykactor.__main__ import main
from ykactor.surfaces.cli.main import COMMANDS, VERBS

#: More than Linux lets one message have.
_REQUEST_MAX_BYTES = 1_000_000
REPORT = struct.Struct("i")


def _import_all() -> None:
    for path in sorted({path.partition(":")[0] for path in (*COMMANDS.values(), VERBS)}):
        importlib.import_module(f"ykactor.surfaces.cli.{path}")
    for late in ("surfaces.daemon.daemon", "kubernetes.adapter", "kubernetes.probes"):
        importlib.import_module(f"ykactor.{late}")
    gc.collect()
    gc.freeze()


def _become_requested(control: socket.socket) -> None:
    """Return in each process that was asked for, prepared as by ``exec``; the server itself ends here with its client."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _REQUEST_MAX_BYTES, 4)
        _reap()
        if not request:
            sys.exit()
        if not os.fork():
            control.close()
            _watch_over(descriptors)
            arguments, environment = json.loads(request)
            sys.argv = ["ykactor", *arguments]
            os.environ.clear()
            os.environ.update(environment)
            time.tzset()
            _customize()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _customize() -> None:
    """Import the ``sitecustomize`` of ``PYTHONPATH``, if there is one, as an interpreter does that starts."""
    if path := os.environ.get("PYTHONPATH"):
        sys.path[:0] = path.split(os.pathsep)
        sys.modules.pop("sitecustomize", None)
        if importlib.util.find_spec("sitecustomize"):
            importlib.import_module("sitecustomize")


def _watch_over(descriptors: list[int]) -> None:
    """Fork once more: the new process returns, this one reports on it."""
    *standards, report = descriptors
    pid = os.fork()
    if pid:
        for descriptor in standards:
            os.close(descriptor)
        os.write(report, REPORT.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(report, REPORT.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.close(report)
    for standard, descriptor in enumerate(standards):
        os.dup2(descriptor, standard)
        os.close(descriptor)


def _reap() -> None:
    """Forget those that have reported."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    _import_all()
    _become_requested(socket.socket(fileno=int(sys.argv[1])))
    main()
