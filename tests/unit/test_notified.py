"""Who was told what."""

from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.queueing.notified import OVER_QUOTA, Told


def asked(key: str) -> Ask:
    return Ask(AllocationSpec(key, "app-1", {"vcore": 1}), 0, 1)  # type: ignore[arg-type]


def test_an_ask_is_in_one_place() -> None:
    """Everybody begins as told nothing; who leaves is known no more."""
    first, second = asked("t1"), asked("t2")
    told = Told([first])
    told.add(second)
    assert [list(asks) for asks in told.asks] == [["t1", "t2"], [], [], []]
    told.asks[OVER_QUOTA]["t1"] = told.asks[0].pop("t1")  # type: ignore[index, arg-type]
    assert told.drop(first) == OVER_QUOTA
    assert told.drop(second) == 0
    assert not any(told.asks)
