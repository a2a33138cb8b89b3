"""Large answers are put together in pieces (SE-96)."""

import json
import random

import pytest

from ykactor.core.values.parts import PART_MAX, finished, paced
from ykactor.wire.rest.codec import PART_BYTES, Item, Pieces, encode_part, encode_with, list_parts


def an_object(asks: int, tasks: int, size: int) -> tuple[Item, object]:
    """An object with two lists of that many items of that size, and what it says."""
    lists: dict[str, list[object]] = {
        "requests": [{"number": number, "text": "<" * size} for number in range(asks)],
        "allocations": [{"number": number} for number in range(tasks)],
    }
    item = finished(encode_with({"name": "a&b"}, {name: [*map(encode_part, entries)] for name, entries in lists.items()}))
    return item, {"name": "a&b", **{name: entries for name, entries in lists.items() if entries}}


@pytest.mark.parametrize("asks", [0, 1, PART_MAX - 1, PART_MAX, PART_MAX + 1, 3 * PART_MAX])
@pytest.mark.parametrize("tasks", [0, 1, 2 * PART_MAX])
def test_an_object_with_lists(asks: int, tasks: int) -> None:
    """Whatever they have."""
    item, expected = an_object(asks, tasks, size=1)
    assert isinstance(item, bytes) is (asks + tasks <= PART_MAX)
    assert json.loads(b"".join(item.pieces) if isinstance(item, Pieces) else item) == expected


def test_a_large_object_is_never_in_one_piece() -> None:
    """Others run before each of its pieces is put together."""
    entries = [encode_part({"text": "x" * 1000})] * (10 * PART_MAX)
    work = paced(encode_with({"name": "a"}, {"requests": entries}))
    pauses = sum(1 for _ in work)
    assert pauses == 9
    item, expected = an_object(10 * PART_MAX, 0, size=200)
    assert isinstance(item, Pieces)
    assert max(map(len, item.pieces)) <= PART_MAX * (len(entries[0]) + 300)
    assert json.loads(b"".join(item.pieces)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_a_list_of_objects(seed: int) -> None:
    """A list with objects in pieces encodes the same list, and its parts are no larger than they have to be."""
    chosen = random.Random(seed)
    found = [an_object(chosen.choice([0, 1, 2000]), chosen.choice([0, 3]), size=chosen.choice([1, 200])) for _ in range(6)]
    parts = [*list_parts(item for item, _ in found)]
    assert json.loads(b"".join(parts)) == [expected for _, expected in found]
    pieces = [len(piece) for item, _ in found for piece in (item.pieces if isinstance(item, Pieces) else [item])]
    assert max(map(len, parts)) <= PART_BYTES + max(pieces) + len(pieces)
