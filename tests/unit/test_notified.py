"""The last reports of pending asks."""

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.queueing.equivalence import OVER_QUOTA, NotifiedAsks


def asked(key: str) -> Ask:
    return Ask(key, "app-1", {"vcore": 1}, created_ns=0, arrival=1)  # type: ignore[arg-type]


def test_an_ask_is_in_one_place() -> None:
    """Nothing is reported of a new ask; an ask that is dropped is forgotten."""
    first, second = asked("t1"), asked("t2")
    told = NotifiedAsks([first], Changed())
    told.add(second)
    assert [list(asks) for asks in told.asks] == [["t1", "t2"], [], [], []]
    told.asks[OVER_QUOTA]["t1"] = told.asks[0].pop("t1")  # type: ignore[index, arg-type]
    assert told.drop(first) == OVER_QUOTA
    assert told.drop(second) == 0
    assert not any(told.asks)
