"""``values/stamp.py``: what was computed earlier holds until a counter changes."""

from ykactor.core.values.stamp import Stamp


def test_a_stamp_is_current_until_a_counter_changes():
    counters = [0, 0]
    stamp = Stamp(lambda: tuple(counters))
    assert not stamp.is_current()
    stamp.renew()
    assert stamp.is_current()
    counters[1] += 1
    assert not stamp.is_current()
    stamp.renew()
    assert stamp.is_current()
