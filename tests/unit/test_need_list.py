"""The list that finds the next item that fits."""

from random import Random

from ykactor.core.values.sorted_list import BLOCK_MAX, NeedList, Needs


def _fits(needs: Needs, room: dict[str, int]) -> bool:
    return all(wanted <= max(0, room.get(name, 0)) for name, wanted in needs)


def test_it_finds_what_a_look_at_all_items_finds() -> None:
    """Whatever was added and removed, the first item behind a key that fits is found, and no other."""
    random = Random(7)
    items, there = NeedList[str](), dict[tuple[int, ...], Needs]()
    for step in range(2_000):
        key = (random.randrange(1_000), random.randrange(3))
        if key in there:
            items.remove(key)
            del there[key]
        else:
            there[key] = tuple((name, random.randrange(10)) for name in "abc" if random.random() < 0.8)
            items.add(key, there[key], str(key))
        room = {name: random.randrange(-1, 8) for name in "abc" if random.random() < 0.8}
        after = None if step % 2 else (random.randrange(1_000), 1)
        expected = min((k for k in there if (after is None or k > after) and _fits(there[k], room)), default=None)
        assert items.first(room, after) == (None if expected is None else (expected, str(expected)))
        assert bool(items) == bool(there)
    assert len(there) > 4 * BLOCK_MAX
