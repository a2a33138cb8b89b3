"""``python tests/crash KILLS SEED``: kill a daemon so many times, at moments of all kinds, and print what was done."""

import sys
import tempfile
from pathlib import Path

import trio
from campaign import EXPECTED, run, table


def main() -> None:
    kills, seed = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        counts = trio.run(run, Path(directory), kills, seed)
    print(table(counts))
    missing = [name for name in EXPECTED if not counts[name]]
    if missing:
        sys.exit(f"never happened: {', '.join(missing)}")


if __name__ == "__main__":
    main()
