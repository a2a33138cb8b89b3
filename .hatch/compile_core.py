"""Builds a wheel with a compiled core if YKACTOR_COMPILE is 1 in the environment; without it a wheel is pure Python.

The modules are listed in ``pyproject.toml``. They are compiled in a copy of the sources, so that no extension module is left in
the source tree. The wheel has the sources too; Python prefers the extension modules.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IS_WANTED = os.environ.get("YKACTOR_COMPILE") == "1"


class CompileHook(BuildHookInterface):
    """Adds extension modules to a wheel. An editable installation stays pure Python."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling: the compiler, and the library that the modules import, for its types."""
        return ["mypy[mypyc]>=2.0", "msgspec>=0.19"] if IS_WANTED else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the results to the wheel."""
        if not IS_WANTED or version != "standard":
            return
        self._directory = Path(tempfile.mkdtemp())
        shutil.copytree(Path(self.root, "ykactor"), self._directory / "ykactor")
        subprocess.run([sys.executable, "-m", "mypyc", "--strict", *self.config["modules"]], cwd=self._directory, check=True)
        extensions = [path for path in self._directory.rglob("*.so") if "build" not in path.relative_to(self._directory).parts]
        build_data["force_include"].update({str(path): str(path.relative_to(self._directory)) for path in extensions})
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        if not build_data["pure_python"]:
            shutil.rmtree(self._directory)
