"""``python -m additions DIRECTORY KIND...``: let examples show that they work, with the changed files of the directory.

Prints by kind what is wrong, "" if nothing is.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


class Changed(MetaPathFinder):
    """Finds modules in the directory first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        file = self._directory.joinpath(*name.split(".")).with_suffix(".py")
        return spec_from_file_location(name, file) if file.exists() else None


def outcome(kind: str) -> str:
    """The mistake of an example; "" if it works."""
    try:
        importlib.import_module(f"additions.{kind}").works()
    except Exception:
        return f"the example {kind} does not work:\n{traceback.format_exc()}"
    return ""


directory, *kinds = sys.argv[1:]
sys.meta_path.insert(0, Changed(Path(directory)))
print(json.dumps({kind: outcome(kind) for kind in kinds}))
