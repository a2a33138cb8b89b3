"""The options that choose rows of a view, such as ``--queue``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, Struct

from ykactor.access.model import is_below, normal_queue
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.surfaces.cli.views.holds import states_of
from ykactor.surfaces.cli.views.listing import Row

#: The states in which applications have ended.
_ENDED = frozenset((ApplicationState.COMPLETED, ApplicationState.FAILED, ApplicationState.REJECTED, *Outcome))
#: The verb that lists what an option, or an argument, names.
_LISTS = {"partition": "partitions", "queue": "queues", "user": "users", "application": "apps", "app": "apps", "node": "nodes"}


def absent(kind: str, name: str, where: str = "the daemon") -> str:
    """Says that nothing of this kind has the name, as far as it is shown."""
    return f"{where} has no {kind} {name}, or does not show it; ykactor {_LISTS[kind]} lists them"


class Filter(Struct, frozen=True):
    """An option that may be given several times.

    Attributes:
        help: of the option.
        spelled: a name as the daemon writes it.
        known: the names in the state of a partition.
        keeps: whether a row has one of the names.
    """

    help: str
    spelled: Callable[[str], str]
    known: Callable[[PartitionStatus], Iterable[str]]
    keeps: Callable[[Row, Sequence[str]], bool]


def _users(state: PartitionStatus) -> set[str]:
    """The users that have an application, and those that a limit names."""
    limited = (limit.whose.removeprefix("user ") for limit in state.limits if limit.whose.startswith("user "))
    return {*limited, *(application.user for application in state.applications.values() if application.user is not UNSET)}


FILTERS: Mapping[str, Filter] = {
    "partition": Filter(
        "Only what is in this partition. Repeatable.",
        spelled=str.lower,
        known=lambda state: [state.name.lower()],
        keeps=lambda row, names: row["partition"].lower() in names,
    ),
    "queue": Filter(
        "Only what is in this queue and in the queues below it. Repeatable.",
        spelled=normal_queue,
        known=lambda state: state.queues,
        keeps=lambda row, names: is_below(row.get("queueName", ""), names),
    ),
    "app": Filter(
        "Only what is of this application. Repeatable.",
        spelled=str,
        known=lambda state: state.applications,
        keeps=lambda row, names: row.get("applicationID") in names,
    ),
    "user": Filter(
        "Only what belongs to this user. Repeatable.",
        spelled=str,
        known=_users,
        keeps=lambda row, names: row.get("user") in names,
    ),
}


class Choice(Struct, frozen=True):
    """The choice of the options; an option that is not given keeps all rows.

    Attributes:
        names: by the option, as the daemon writes them.
        states: of which a row must have one.
        since_ns: the Unix time before which a row must not have ended, and it must have ended.
    """

    names: Mapping[str, Sequence[str]]
    states: Sequence[str] = ()
    since_ns: int | None = None

    @classmethod
    def of(cls, states: Sequence[str] = (), since_ns: int | None = None, **names: Sequence[str]) -> Choice:
        """The choice of options with their values, as they were given."""
        spelled = {option: [FILTERS[option].spelled(name) for name in given] for option, given in names.items() if given}
        return cls(spelled, states, since_ns)

    @property
    def is_narrow(self) -> bool:
        """True if there is an option that may keep less than all rows."""
        return bool(self.names or self.states) or self.since_ns is not None

    @property
    def is_past(self) -> bool:
        """True if only ended applications can be chosen."""
        return self.since_ns is not None or (bool(self.states) and _ENDED.issuperset(self.states))

    def keeps(self, row: Row) -> bool:
        """True if all options keep the row."""
        if self.states and not any(state in self.states for state in states_of(row)):
            return False
        if self.since_ns is not None and row.get("finishedTime", -1) < self.since_ns:
            return False
        return all(FILTERS[option].keeps(row, names) for option, names in self.names.items())

    def unknown(self, states: Sequence[PartitionStatus]) -> Iterator[str]:
        """A sentence about each name that no partition has: it may be a typo."""
        for option, names in self.names.items():
            known = {name for state in states for name in FILTERS[option].known(state)}
            yield from (absent(option, name) for name in names if name not in known)
