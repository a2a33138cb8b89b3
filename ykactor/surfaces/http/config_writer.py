"""Writes the configuration for ``/ws/v1/config`` without holding the event loop: a large one in a separate process."""

from __future__ import annotations

import sys

import trio

from ykactor.surfaces.files.config_loader import LOAD_S, is_small
from ykactor.wire.rest.configuration import json_of, yaml_of

_FORMS = {"json": json_of, "yaml": yaml_of}


async def written_config(text: str, checksum: str, form: str) -> bytes:
    """A valid configuration as ``json`` or ``yaml``.

    Raises:
        OSError, subprocess.CalledProcessError: the process could not be started, or failed.
        trio.TooSlowError: it took longer than ``LOAD_S``.
    """
    if is_small(text):
        return _FORMS[form](text, checksum)
    command = [sys.executable, "-P", "-m", __name__, form, checksum]  # -P: import nothing from where the daemon was started
    with trio.fail_after(LOAD_S):
        process = await trio.run_process(command, stdin=text.encode(), capture_stdout=True, capture_stderr=True)
    return bytes(process.stdout)


def main() -> None:
    """The separate process: reads a text and writes it in a form. The arguments are the form and the checksum."""
    form, checksum = sys.argv[1:]
    sys.stdout.buffer.write(_FORMS[form](sys.stdin.buffer.read().decode(), checksum))


if __name__ == "__main__":
    main()
