"""Entries for the daemon from one call of the state, in few requests and in the order in which it needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec import structs

from ykactor.kubernetes.messages import Tell
from ykactor.wire.si import messages as si

#: Entries of one request.
ENTRIES_MAX = 3000

T = TypeVar("T")


class Outgoing:
    """Entries for the daemon: nodes, answers about them, applications, what has ended, what is asked for, opened nodes.

    Nodes come first, so that what runs there is accepted. Answers come before asks, so that the daemon has no questions.
    New nodes get their capacity when what runs there is told, before the answers about them, which a new capacity ends (SC-156),
    and are opened last.
    """

    def __init__(self) -> None:
        self.nodes: list[si.NodeInfo] = []
        self.forgotten: list[si.PredicateScope] = []
        self.answers: list[si.PredicateAnswer] = []
        self.quotas: list[si.SetQueueQuotas] = []
        self.removals: list[si.RemoveApplicationRequest] = []
        self.applications: list[si.AddApplicationRequest] = []
        self.releases: list[si.AllocationRelease] = []
        self.allocations: list[si.Allocation] = []
        self.capacities: list[si.NodeInfo] = []
        self.openings: list[si.NodeInfo] = []

    def requests(self, request_id: str) -> list[Tell]:
        """The entries as requests, of which the last has this id: its answer confirms all of them."""
        requests = list(self._requests())
        if request_id:
            requests[-1] = Tell(structs.replace(requests[-1].request, id=request_id))
        return requests

    def _requests(self) -> Iterator[Tell]:
        for nodes in _parts(self.nodes):
            yield Tell(si.NodeRequest(nodes=nodes))
        for scopes in _parts(self.forgotten):
            yield Tell(si.PredicatesResponse(forget=scopes))
        new = {entry.node_id for entry in self.capacities}
        yield from _answers([answer for answer in self.answers if answer.node_id not in new])
        yield from map(Tell, self.quotas)
        for removals in _parts(self.removals):
            yield Tell(si.ApplicationRequest(remove=removals))
        for applications in _parts(self.applications):
            yield Tell(si.ApplicationRequest(new=applications))
        for releases in _parts(self.releases):
            yield Tell(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=releases)))
        for allocations in _parts(self.allocations):
            yield Tell(si.AllocationRequest(allocations=allocations))
        for capacities in _parts(self.capacities):
            yield Tell(si.NodeRequest(nodes=capacities))
        yield from _answers([answer for answer in self.answers if answer.node_id in new])
        for openings in _parts(self.openings):
            yield Tell(si.NodeRequest(nodes=openings))


def _answers(answers: Sequence[si.PredicateAnswer]) -> Iterator[Tell]:
    for part in _parts(answers):
        yield Tell(si.PredicatesResponse(answers=part))


def _parts(entries: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(entries), ENTRIES_MAX):
        yield entries[start : start + ENTRIES_MAX]
