"""The build of this process: what it decides depends on nothing else but its input."""

from hashlib import sha256
from pathlib import Path

import ykactor
from ykactor import core

#: Hexadecimal digits of the fingerprint that are shown.
_DIGITS = 12


def _build() -> str:
    """The version, and a fingerprint of the source of ``core``, which a compiled installation has too."""
    folder = Path(core.__file__).parent
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(b"%s\0%s\0" % (str(path.relative_to(folder)).encode(), path.read_bytes()))
    return f"{ykactor.__version__}+{digest.hexdigest()[:_DIGITS]}"


#: Read when the process starts: another version may be installed while it runs.
BUILD = _build()
