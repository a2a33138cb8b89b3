"""Batches whose number says everything about them, and what a journal then holds."""

import json
import os
import random
import shutil
import sys
from pathlib import Path

from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch, change_text, changed_records

ROOT = Path(__file__).parents[2]
#: What a child process needs to import this module and the package.
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
PYTHON = sys.executable
S_NS = 10**9
NEVER_NS = 10**18

Records = dict[bytes, bytes]


def opened(directory: Path) -> Store:
    return Store.open(directory, "full", now_ns=0)


def compact_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def key_of(identity: object) -> bytes:
    return compact_json(["default", "task", identity])


def batch(number: int, puts: Records | None = None, deletes: set[bytes] | None = None, turns: list[bytes] | None = None) -> Batch:
    """The batch for a transaction: at second ``number``, about one name, with two events, one message, and at times a base."""
    return Batch(
        at_ns=number * S_NS,
        changes=texts(puts or {}, deletes or set()),
        first_event=2 * number,
        events_count=2,
        first_message=number,
        messages_count=1,
        turns=[b'{"turn":%d}' % number] if turns is None else turns,
        messages=[b"message %d" % number],
        bases={0: b"base %d" % number} if number % 3 == 0 else {},
        names={f"name {number}"},
    )


def texts(puts: Records, deletes: set[bytes] | None = None) -> list[bytes]:
    """Records that are put and deleted, as a batch has them."""
    return [change_text(key, data) for key, data in (puts | dict.fromkeys(deletes or ())).items()]


def numbered(number: int, keys: int = 50) -> Batch:
    """Some puts and deletes among ``keys`` keys, and a turn of up to 10 kB, which only depend on the number."""
    rng = random.Random(number)
    chosen = rng.sample(range(keys), rng.randint(1, 10))
    cut = rng.randint(0, len(chosen))
    puts = {key_of(identity): compact_json({"at": number, "text": "x" * rng.randint(0, 300)}) for identity in chosen[:cut]}
    turn = compact_json({"turn": number, "text": rng.randbytes(rng.choice([0, 50, 5000])).hex()})
    return batch(number, puts, {key_of(identity) for identity in chosen[cut:]}, [turn])


def apply(records: Records, change: Batch) -> Records:
    changed = records | {key: data for text in change.changes for key, data in changed_records(text)}
    return {key: data for key, data in changed.items() if data is not None}


def states(last: int) -> list[Records]:
    """The records after each of ``numbered`` 0 (none) to ``last``."""
    found: list[Records] = [{}]
    for number in range(1, last + 1):
        found.append(apply(found[-1], numbered(number)))
    return found


def records_of(directory: Path) -> Records:
    with Reader.open(directory) as reader:
        return dict(reader.records())


def turns_of(directory: Path) -> list[tuple[int, list[bytes]]]:
    with Reader.open(directory) as reader:
        return [(row.number, row.turns()) for row in reader.rows()]


def copied(directory: Path, target: Path) -> Path:
    """The files as they would be after the death of the process; without the index of the write-ahead log, which is memory."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("*-shm"))
    return target
