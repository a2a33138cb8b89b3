"""Receipts: what the journal keeps of a request from its first turn to its answer.

What partitions do for a request, in one turn or in several, may become durable before its answer does. So each of these turns
leaves a receipt in its transaction, and the answer takes the receipts of its request away in its own. The receipts that a daemon
finds when it starts belong to requests that had an effect and were not answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from ykactor.core.values.ids import PartitionName
from ykactor.journal.transaction import change_text

#: How the keys of receipts begin; no partition has an empty name.
_KEY = b'["","request",'


class Receipt(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A partition has begun or finished its part of a request.

    Attributes:
        request_id: chosen by the resource manager.
        parts: the number of partitions that have a part.
        is_done: whether it has finished its part.
        refusal: why it refused the request; "" if it did not.
    """

    request_id: str
    parts: int
    is_done: bool
    refusal: str = ""


class Accepted(Struct, eq=False):
    """A request that was accepted.

    Attributes:
        number: counts the requests since the daemon started.
        partitions: those that have a part, set before they get it.
    """

    number: int
    request_id: str
    partitions: Sequence[PartitionName] = ()

    def receipt(self, partition: PartitionName, *, is_done: bool, refusal: str = "") -> bytes:
        """The receipt of a partition, as a changed record."""
        receipt = Receipt(self.request_id, len(self.partitions), is_done, refusal)
        return change_text(self._key(partition), msgspec.json.encode(receipt))

    def keys(self) -> list[bytes]:
        """The keys of all its receipts."""
        return list(map(self._key, self.partitions))

    def _key(self, partition: PartitionName) -> bytes:
        return msgspec.json.encode(("", "request", self.number, partition))


class Unanswered(Struct):
    """A request that had an effect before the daemon ended, and no answer.

    Attributes:
        keys: of its receipts.
        is_done: whether all partitions have finished their parts.
        refusal: as in ``Receipt``.
    """

    request_id: str
    keys: list[bytes]
    is_done: bool
    refusal: str


def unanswered(records: Mapping[bytes, bytes]) -> list[Unanswered]:
    """The requests of the receipts among some records, in the order in which they were accepted."""
    receipts: dict[int, dict[bytes, Receipt]] = defaultdict(dict)
    for key, data in records.items():
        if key.startswith(_KEY):
            receipts[msgspec.json.decode(key)[2]][key] = msgspec.json.decode(data, type=Receipt)
    return [_together(found) for _, found in sorted(receipts.items())]


def _together(receipts: dict[bytes, Receipt]) -> Unanswered:
    any_receipt, *_ = receipts.values()
    is_done = len(receipts) == any_receipt.parts and all(receipt.is_done for receipt in receipts.values())
    return Unanswered(any_receipt.request_id, list(receipts), is_done, any_receipt.refusal)
