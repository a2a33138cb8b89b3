"""Which application first in a leaf (section 6 of PR): the keys of the three policies, and the filter of ``stateaware``."""

from __future__ import annotations

from bisect import bisect_left, insort

from ykactor.core.backlog import WaitingApplication
from ykactor.core.ids import ApplicationID
from ykactor.core.ordering import Lineup, SortKey
from ykactor.core.priorities import sort_rank
from ykactor.core.queueconfig import QueueConfig
from ykactor.core.resources import Resource
from ykactor.core.states import ApplicationState

_STARTING, _ACCEPTED = ApplicationState.STARTING, ApplicationState.ACCEPTED


def usage_key(allocated: Resource, guaranteed: Resource | None) -> tuple[float, ...]:
    """The usage of section 6.2 of PR as a tuple that compares: shares of the guarantee or plain amounts, largest first.

    The tuple ends in 0.0 and trailing zeros do not count, so that a list which runs out compares with what is left of the
    other as with zeros. (A zero between positive and negative amounts would break this; allocated is never negative.)
    """
    total = guaranteed or {}
    usage = [
        float(amount) / float(total[name]) if total.get(name) else float(amount)
        for name, amount in allocated.items()
        if amount
    ]
    usage.sort(reverse=True)
    return *usage, 0.0


class LeafOrder:
    """The applications of one leaf in the order of its policy.

    Under ``stateaware`` applications that are Starting or Accepted are kept back in lines of their own, and only the first
    of one of them is in the lineup: of Accepted when nobody is Starting, with or without pending asks (section 6.3 of PR).
    """

    __slots__ = (
        "_chosen",
        "_config",
        "_kept_back",
        "_lineup",
        "_places",
        "_starting",
        "first",
        "park",
        "sorts_by_more_than_age",
        "wake",
    )

    def __init__(self, config: QueueConfig) -> None:
        self._config = config
        #: Whether an allocation can move an application although its priority stays: by usage, or by its state.
        self.sorts_by_more_than_age = config.properties.sort_policy != "fifo"
        self._lineup: Lineup[WaitingApplication] = Lineup()
        #: The best application that is not parked; None if all are.
        self.first = self._lineup.first
        self.park = self._lineup.park
        self.wake = self._lineup.wake
        self._kept_back: dict[ApplicationState, list[tuple[SortKey, WaitingApplication]]] = {_STARTING: [], _ACCEPTED: []}
        self._places: dict[ApplicationID, tuple[ApplicationState, SortKey]] = {}
        self._starting: set[ApplicationID] = set()
        self._chosen: WaitingApplication | None = None

    def sort_key(self, application: WaitingApplication) -> SortKey | None:
        """The application's place by the policy; None when it has nothing pending (PR-29)."""
        priority = application.priorities.highest
        if priority is None:
            return None
        properties = self._config.properties
        rank, age, arrival = sort_rank(priority), application.submission_ns, application.arrival
        if properties.sort_policy == "fair":
            usage = usage_key(application.allocated, self._config.guaranteed)
            return (rank, usage, age, arrival) if properties.sort_by_priority else (usage, rank, age, arrival)
        return (rank, age, arrival) if properties.sort_by_priority else (age, rank, arrival)

    def update(self, application: WaitingApplication) -> None:
        """Bring the place of ``application`` up to date with its asks, usage and state."""
        key = self.sort_key(application)
        if self._config.properties.sort_policy != "stateaware":
            self._lineup.put(application, key)
            return
        self._keep_back(application, key)
        if application.state not in self._kept_back:
            self._lineup.put(application, key)
        elif application is not self._chosen:
            self._lineup.put(application, None)
        self._choose()

    def remove(self, application: WaitingApplication) -> None:
        """The application leaves the queue."""
        self._lineup.put(application, None)
        self._keep_back(application, None)
        self._starting.discard(application.application_id)
        self._choose()

    def _keep_back(self, application: WaitingApplication, key: SortKey | None) -> None:
        old = self._places.pop(application.application_id, None)
        if old is not None:
            line = self._kept_back[old[0]]
            del line[bisect_left(line, (old[1],))]
        if application.state is _STARTING:
            self._starting.add(application.application_id)
        else:
            self._starting.discard(application.application_id)
        if key is not None and application.state in self._kept_back:
            self._places[application.application_id] = application.state, key
            insort(self._kept_back[application.state], (key, application))

    def _choose(self) -> None:
        line = self._kept_back[_STARTING if self._starting else _ACCEPTED]
        chosen = line[0][1] if line else None
        before, self._chosen = self._chosen, chosen
        if before is not None and before is not chosen and before.state in self._kept_back:
            self._lineup.put(before, None)
        if chosen is not None:
            self._lineup.put(chosen, line[0][0])
