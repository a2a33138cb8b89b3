"""``forkserver.py FD``: imports ``ykactor`` once, then forks one process of it for each request at the socket ``FD``.

A request is one message: the JSON text ``[program, arguments, environment, directory]`` and the descriptors of standard input,
output and error, and of a report. The program is a Python file that runs in place of ``ykactor``; "" is ``ykactor`` itself. The
report gets the process's number and later its exit code (negative: the signal), each as four bytes.
"""

import atexit
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
import threading
import time
from typing import NoReturn

import ykactor
from ykactor.__main__ import main
from ykactor.wire import queuefile

#: More than Linux lets one message have.
_REQUEST_MAX_BYTES = 1_000_000
REPORT = struct.Struct("i")


def _import_all() -> None:
    """Import what the processes import, also late, and prepare the reading of queue files: they share it."""
    for module in pkgutil.walk_packages(ykactor.__path__, "ykactor."):
        importlib.import_module(module.name)
    importlib.import_module("encodings.idna")
    queuefile.load("")
    gc.collect()
    gc.freeze()


def _become_requested(control: socket.socket) -> str:
    """Return the program in each requested process, prepared as by ``exec``; the server itself ends here with its client."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _REQUEST_MAX_BYTES, 4)
        _reap()
        if not request:
            sys.exit()
        if not os.fork():
            control.close()
            _watch_over(descriptors)
            program, arguments, environment, directory = json.loads(request)
            os.chdir(directory or ".")
            sys.argv = [program or "ykactor", *arguments]
            os.environ.clear()
            os.environ.update(environment)
            time.tzset()
            _customize()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
            return str(program)
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


def _exit(code: int) -> NoReturn:
    """End like the interpreter, but free no objects: a fork would first copy them, which takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _import_all()
    requested = _become_requested(socket.socket(fileno=int(sys.argv[1])))
    try:
        runpy.run_path(requested, run_name="__main__") if requested else main()
    except SystemExit as end:
        if isinstance(end.code, int):
            _exit(end.code)
        raise
