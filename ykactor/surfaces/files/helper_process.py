"""A process that works on bytes, so that the event loop goes on. A thread would not help: parsers hold the interpreter lock."""

import sys
from collections.abc import Callable
from importlib import import_module
from subprocess import CalledProcessError

import trio


class HelperProcessError(Exception):
    """A helper process could not be started, or failed; the message says how."""


async def in_helper_process(work: Callable[..., bytes], data: bytes | int, *args: str, limit_s: float) -> bytes:
    """The result of ``work(data, *args)``, a function of a module, from a process of its own. Starting one takes 0.1 s.

    Args:
        data: the bytes, or the descriptor of a file that has them from its position on.

    Raises:
        HelperProcessError: the process could not be started, or failed.
        trio.TooSlowError: it took longer than ``limit_s``.
    """
    # -P: import nothing from where the daemon was started.
    command = [sys.executable, "-P", "-m", __name__, work.__module__, work.__name__, *args]
    try:
        with trio.fail_after(limit_s):
            process = await trio.run_process(command, stdin=data, capture_stdout=True, capture_stderr=True)
    except OSError as error:
        raise HelperProcessError(str(error)) from error
    except CalledProcessError as error:
        last_line = (error.stderr or b"").decode(errors="replace").strip().rpartition("\n")[2]
        raise HelperProcessError(f"{error} {last_line}".rstrip()) from error
    return process.stdout


def main() -> None:
    """Do the work of the process: read bytes, write the result of the function that the arguments name."""
    module, name, *args = sys.argv[1:]
    work = getattr(import_module(module), name)
    sys.stdout.buffer.write(work(sys.stdin.buffer.read(), *args))


if __name__ == "__main__":
    main()
