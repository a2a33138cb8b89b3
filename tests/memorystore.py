"""A store in memory that can be slow, full, dead, and cut off."""

import msgspec
import trio

from ykactor.journal.errors import NotWrittenError
from ykactor.journal.transaction import Batch, changed_records


class MemoryStore:
    """The committed transactions; ``delay_s`` gives the time of each commit, in which nothing of it is there yet.

    While ``is_full`` is set commits fail, and nothing is written; while ``answers`` is not set they do not return.
    """

    def __init__(self, delay_s=lambda: 0.001):
        self.batches: list[Batch] = []
        self.records: dict[bytes, bytes] = {}
        self.is_full = False
        self.failure: Exception | None = None
        self.attempts = 0
        self.answers = trio.Event()
        self.answers.set()
        self._delay_s = delay_s

    async def commit(self, batch):
        self.attempts += 1
        await trio.sleep(self._delay_s())
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure
        if self.is_full:
            raise NotWrittenError("no room on the disk")
        self.batches.append(batch)
        changed = self.records | {key: data for text in batch.changes for key, data in changed_records(text)}
        self.records = {key: data for key, data in changed.items() if data is not None}

    async def tidy(self):
        """Nothing to do."""
        return False

    async def rows(self, prefix):
        await trio.sleep(self._delay_s())
        return [(key, data) for key, data in self.records.items() if key.startswith(prefix)]

    @property
    def last_event(self):
        """The number of the newest event that is durable."""
        return self.batches[-1].first_event + self.batches[-1].events_count - 1 if self.batches else 0

    @property
    def messages(self):
        """All messages that are durable."""
        return [message for batch in self.batches for message in batch.messages]

    @property
    def turns(self):
        """All turns that are durable."""
        return [msgspec.json.decode(turn) for batch in self.batches for turn in batch.turns]
