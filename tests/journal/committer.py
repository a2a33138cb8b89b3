"""A child process that commits until it is killed: ``committer.py DIRECTORY``. Prints each number when it is committed."""

import sys
from pathlib import Path

from journals import S_NS, numbered, opened


def main() -> None:
    store = opened(Path(sys.argv[1]))
    print(store.loss, flush=True)
    while True:
        number = store.commit(numbered(store.number + 1))
        print(number, flush=True)
        if number % 20 == 0:
            store.checkpoint()
        if number % 13 == 0:
            store.merge()
        if number % 7 == 0:
            store.trim(bytes_max=10**9, age_max_ns=100 * S_NS, now_ns=number * S_NS)


if __name__ == "__main__":
    main()
