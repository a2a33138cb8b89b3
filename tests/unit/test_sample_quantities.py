"""Samples and documents write quantities as text: as a number 4 is four cores in a queue file, and 0.004 in a scenario.

Not the pages of the rules: they are about every spelling.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(
    path
    for pattern in ("*.md", "config/*.yaml", "bench/*.md", "systemd/*", "ykactor/**/*.md", "ykactor/**/*.yaml")
    for path in ROOT.glob(pattern)
    if path.parent.name != "rules"
)
BARE = re.compile(r"(?:vcore|memory|gpu): *[0-9]+ *(?=[,}`\n])")


def test_there_are_samples() -> None:
    """The list below is not empty by accident."""
    names = {path.relative_to(ROOT).as_posix() for path in SAMPLES}
    assert names >= {"README.md", "config/queues.yaml", "ykactor/sim/sample.yaml", "ykactor/sim/README.md"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_quantities_are_text(path: Path) -> None:
    """Resource types do not have bare numbers."""
    assert BARE.findall(path.read_text()) == []
