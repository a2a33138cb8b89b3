"""A disk after a power failure: of what was written since the last fsync it has kept any sectors, and others not."""

import random
import shutil
from pathlib import Path

from ykactor.journal.files import Seen, Witness

SECTOR_BYTES = 512
#: What the witness names as the boot after a power failure, until the next daemon has written it.
EARLIER_BOOT = "another"


def mixture(before: Path, after: Path, rng: random.Random) -> None:
    """Makes of ``after`` a file with some sectors of ``before``, and the size of one of them."""
    old, new = (path.read_bytes() if path.exists() else b"" for path in (before, after))
    size = len(rng.choice([old, new]))
    old, new = (content[:size].ljust(size, b"\0") for content in (old, new))
    share = rng.random()
    sectors = [(old if rng.random() < share else new)[at : at + SECTOR_BYTES] for at in range(0, size, SECTOR_BYTES)]
    after.write_bytes(b"".join(sectors))


def fail(directory: Path, images: Path, rng: random.Random, *, is_full: bool) -> None:
    """Make of a state directory what the disk has kept, from ``synced`` and ``written`` in ``images`` (``crash/faulty.py``)."""
    synced, written = images / "synced", images / "written"
    shutil.rmtree(directory)
    shutil.copytree(written, directory)
    mixture(synced / "journal.db-wal", directory / "journal.db-wal", rng)
    if is_full:  # the witness is written when the commit is on the disk, and its name is synced with its first content
        (directory / "witness").unlink()
        if (synced / "witness").exists():
            shutil.copy(synced / "witness", directory / "witness")
        return
    if (synced / "witness").exists():
        mixture(synced / "witness", directory / "witness", rng)
    seen = Seen.of(directory)
    witness = Witness(directory, "normal")
    witness._boot = EARLIER_BOOT
    witness.note(seen.number, seen.term)
    witness.close()
