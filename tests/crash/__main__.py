"""``python tests/crash KILLS SEED [pairs]``: kill a daemon so many times, at moments of all kinds, and print what was done.

With ``pairs`` each daemon has a standby, which takes over.
"""

import sys
import tempfile
from pathlib import Path

import trio
from campaign import EXPECTED, EXPECTED_OF_PAIRS, run, run_pairs, table


def main() -> None:
    kills, seed = map(int, sys.argv[1:3])
    play, expected = (run_pairs, EXPECTED_OF_PAIRS) if sys.argv[3:] == ["pairs"] else (run, EXPECTED)
    with tempfile.TemporaryDirectory() as directory:
        counts = trio.run(play, Path(directory), kills, seed)
    print(table(counts))
    missing = [name for name in expected if not counts[name]]
    if missing:
        sys.exit(f"never happened: {', '.join(missing)}")


if __name__ == "__main__":
    main()
