"""The start of the programs ``launcher`` and ``remover``, which do what must not be done in this process.

Each has the standard library only and an empty environment. It reads its order, a JSON document, from a file without a name:
nobody waits for its reader, no half of it is ever read, and other users do not see it, as they see arguments.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def words(program: ModuleType) -> list[str]:
    """The command that runs a program."""
    return [sys.executable, "-I", "-S", str(program.__file__)]


def launch(program: ModuleType, order: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a program with an order, in a session of its own.

    Raises:  OSError.
    """
    with open(os.memfd_create("order"), "w+b") as file:
        file.write(json.dumps(order).encode())
        file.flush()
        file.seek(0)
        silent = subprocess.DEVNULL
        return subprocess.Popen(words(program), stdin=file, stdout=silent, stderr=silent, env={}, cwd="/", start_new_session=True)
