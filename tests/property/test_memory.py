"""DU-25: the partitions in the memory of a standby are what a recovery from its disk would make of the rows there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from histories import draw_history
from msgspec import structs
from recorded import DEFAULT, Step, record
from seeds import seeds
from test_replay import BUDGETS, scheduler_config, steps_of

from ykactor.actors import partition
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.records.base import decode_base, differing_row, encode_base
from ykactor.core.records.encoding import partition_of
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.times import NEVER
from ykactor.journal.changes import packed_texts
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import LogRow, Transaction, change_columns, change_text, packed_turns
from ykactor.surfaces.files.recovery import Kept, recover_partitions
from ykactor.surfaces.standby import memory as module
from ykactor.surfaces.standby.memory import Memory

#: The seed of a history with more than one partition.
SEVERAL = 0


def recorded(directory: Path, seed: int, patch: pytest.MonkeyPatch, keep_bytes: int = NEVER) -> list[Transaction]:
    """The transactions of the lives of a daemon, which end suddenly now and then."""
    history, transactions, write = draw_history(seed, batches=40), list[Transaction](), Store.write

    def writing(store: Store, transaction: Transaction) -> int:
        transactions.append(transaction)
        return write(store, transaction)

    config: SchedulerConfig = scheduler_config(history.config)
    steps: list[Step] = list(steps_of(history, seed))
    with patch.context() as patched:
        patched.setattr(Store, "write", writing)
        record(directory, config, steps, seed=seed, budget=BUDGETS[seed % 3], ends=0.05, keep_bytes=keep_bytes)
    return transactions


async def remembered(transactions: list[Transaction], memory: Memory | None = None) -> dict[Any, Kept]:
    """The partitions in memory after these transactions."""
    memory = memory or Memory(lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        for transaction in transactions:
            memory.add(Transaction.decode(transaction.encode()), 1)
        kept = await memory.up_to_date()
        nursery.cancel_scope.cancel()
    return kept


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("is_renewed", [False, True])
async def test_what_is_in_memory_is_on_the_disk(
    seed: int, is_renewed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reloads, partitions that come, go and are made anew, and restarts of the daemon: each has the rows of the disk."""
    if is_renewed:
        monkeypatch.setattr(partition, "BASES_APART", 0)
    transactions = await trio.to_thread.run_sync(recorded, tmp_path, seed, monkeypatch, 2_000 if is_renewed else NEVER)
    kept = await remembered(transactions)
    with Reader.open(tmp_path) as reader:
        on_disk = recover_partitions(reader, reserves=True)
    assert kept.keys() == on_disk.keys()
    for name, found in kept.items():
        core, scheduler, base = found.restored
        assert base == b""
        rows = finished(encode_base(core, scheduler.state))
        assert differing_row(decode_base(on_disk[name].base), decode_base(rows)) is None
        assert 0 < found.since.at_ns <= int(transactions[-1].log[1])


async def test_each_row_is_compared_with_one_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of many partitions has rows of each: to look at all of them for each would take their product."""
    transactions = await trio.to_thread.run_sync(recorded, tmp_path, SEVERAL, monkeypatch)
    compared, difference = list[set[PartitionName]](), module.difference

    def comparing(changed: list[bytes], texts: list[bytes], *, is_whole: bool) -> str:
        compared.append({partition_of(text[: text.index(b"\n")]) for text in texts})
        return difference(changed, texts, is_whole=is_whole)

    monkeypatch.setattr(module, "difference", comparing)
    await remembered(transactions)
    assert max(map(len, compared)) == 1
    assert len(set().union(*compared)) > 1


@pytest.mark.parametrize("what", ["a row", "a row that was not written", "a fact", "a turn that is missing"])
async def test_a_partition_that_is_not_as_recorded_is_forgotten(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version may decide otherwise, or keep other rows; the next base is asked for, and begins it again."""
    transactions = await trio.to_thread.run_sync(recorded, tmp_path, 3, monkeypatch)
    memory = Memory(lambda: None)
    assert DEFAULT in await remembered(transactions[:1], memory)
    assert not memory.lacks
    position = next(number for number, found in enumerate(transactions) if number and b"Allocated" in found_turns(found))
    changed, prefix = transactions[position], b'["default","task",'
    assert changed.change is not None
    texts = packed_texts(*changed.change)
    match what:
        case "a row":
            text = next(text for text in reversed(texts) if b'"allocation_key":"' in text[text.rfind(prefix) :])
            place = text.index(b'"allocation_key":"', text.rindex(prefix)) + len(b'"allocation_key":"')
            texts[texts.index(text)] = text[:place] + b"x" + text[place:]
            changed = structs.replace(changed, change=change_columns(changed.number, texts))
        case "a row that was not written":
            texts.append(change_text(prefix + b'"10000"]', b"{}"))
            changed = structs.replace(changed, change=change_columns(changed.number, texts))
        case "a fact":
            turns = found_turns(changed).replace(b'"Allocated",{"at_ns":', b'"Allocated",{"at_ns":1', 1).split(b"\n")
            row = structs.replace(LogRow.of(changed.log), packed_turns=packed_turns(turns))
            changed = structs.replace(changed, log=row.columns())
        case _:
            position += 1
            changed = transactions[position]
    caplog.clear()
    before = transactions[1:position] if what != "a turn that is missing" else transactions[1 : position - 1]
    assert DEFAULT not in await remembered([*before, changed], memory)
    assert [record.message for record in caplog.records if record.message == "partition_forgotten"]
    assert memory.lacks
    base = next(found for found in transactions[position:] if found.bases)
    assert DEFAULT in await remembered(transactions[transactions.index(base) :], memory)
    assert not memory.lacks


def found_turns(transaction: Transaction) -> bytes:
    """The turns of a transaction."""
    return b"\n".join(LogRow.of(transaction.log).turns())


async def test_a_standby_that_cannot_keep_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is forgotten with more transactions than may wait, and bases are asked for; transactions that come then are run."""
    transactions = await trio.to_thread.run_sync(recorded, tmp_path, 3, monkeypatch)
    asked = list[int]()
    memory = Memory(lambda: asked.append(1))
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 3)
    for transaction in transactions[:8]:
        memory.add(transaction, 1)
    assert len(asked) == 2
    last = max(number for number, found in enumerate(transactions) if found.bases)
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 2**26)
    assert DEFAULT in await remembered(transactions[last:], memory)
