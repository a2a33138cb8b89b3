"""Mappings of which each item is a row."""

import random

from ykactor.core.messages.kept_rows import KeptRows


def test_every_change_is_noted() -> None:
    """After thousands of random changes, the keys that were noted are those that differ from before, or were set as they were."""
    chance = random.Random(1)
    noted = set[int]()
    rows: KeptRows[int, int] = KeptRows(noted.add)
    rows.restore((key, 0) for key in range(10))
    assert not noted
    for _ in range(2000):
        before, key = dict(rows), chance.randrange(20)
        noted.clear()
        match chance.randrange(6):
            case 0 | 1:
                rows[key] = chance.randrange(3)
            case 2 if key in rows:
                del rows[key]
            case 3 if key in rows:
                assert rows.pop(key) == before[key]
            case 4:
                assert rows.discard(key) == before.get(key)
            case 5 if chance.random() < 0.1:
                rows.clear()
        differing = {each for each in before.keys() | rows.keys() if before.get(each) != rows.get(each)}
        assert differing <= noted <= differing | {key}


def test_there_is_no_other_way_to_change_one() -> None:
    """The other methods by which a dictionary changes do not exist: they would note nothing."""
    rows: KeptRows[str, int] = KeptRows(lambda key: None)
    assert [getattr(rows, name) for name in ("popitem", "setdefault", "update", "__ior__")] == [None] * 4
