"""A resource manager on virtual time: it keeps what it was told, ends tasks in time, confirms releases and answers predicates."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import trio
from msgspec import UNSET, structs

from bench.lives import Life, Line
from ykactor.core.messages.kinds import TerminationType
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import MSGPACK

_STARTED_BY_SCHEDULER = {
    TerminationType.TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER,
    TerminationType.PLACEHOLDER_REPLACED,
}


class Manager:
    """The resource manager over several sessions.

    Args:
        run_s: how long a new allocation runs, in seconds.

    Attributes:
        sequence: the number of the last message received; None before the first registration.
        placed: the number of allocations so far.
        over: applications that ended by themselves or were rejected, until they are taken from here.
    """

    def __init__(self, run_s: Callable[[], float]) -> None:
        self.sequence: int | None = None
        self._term = ""
        self.placed = 0
        self.over: list[str] = []
        self._run_s = run_s
        self._line: Line | None = None
        self._requests_count = 0
        self._answers: dict[str, trio.Event] = {}
        self._ends: list[tuple[float, str, str]] = []
        self._confirmations: list[si.AllocationRelease] = []

    # ---- sessions

    async def register(self, life: Life) -> None:
        """Register anew: everything before is forgotten."""
        self.sequence = None
        self._ends.clear()
        self._confirmations.clear()
        await self.resume(life)

    async def resume(self, life: Life) -> None:
        """Begin a session; it continues the last one if there was one."""
        line = self._line = Line(self._on_message)
        life.serve_manager(line)
        after = UNSET if self.sequence is None else self.sequence
        request = si.RegisterResourceManagerRequest(rm_id="rm", resume_from=after, term=self._term, answers_predicates=True)
        await self.request(request)

    def hang_up(self) -> None:
        """End the session."""
        assert self._line is not None
        self._line.hang_up()

    async def request(self, request: si.Request) -> None:
        """Send a request, and wait until it has been acknowledged or refused."""
        assert self._line is not None
        self._requests_count += 1
        request_id = str(self._requests_count)
        done = self._answers[request_id] = trio.Event()
        self._line.send(structs.replace(request, id=request_id))
        with trio.fail_after(60):
            await done.wait()

    # ---- messages

    def _on_message(self, data: bytes) -> None:
        message = MSGPACK.decode_response(data)
        self.sequence = message.sequence or self.sequence
        match message:
            case si.Ack() | si.ErrorResponse():
                if isinstance(message, si.Ack):
                    self._term = message.term or self._term
                if message.id in self._answers:
                    self._answers.pop(message.id).set()
            case si.AllocationResponse():
                self._on_allocations(message)
            case si.ApplicationResponse():
                self.over += [rejected.application_id for rejected in message.rejected]
                self.over += [update.application_id for update in message.updated if update.state in ("Completed", "Failed")]
            case si.PredicatesRequest():
                self._answer(message)

    def _on_allocations(self, message: si.AllocationResponse) -> None:
        self.placed += len(message.new)
        for task in message.new:
            if not task.placeholder:
                ends_at = trio.current_time() + self._run_s()
                heapq.heappush(self._ends, (ends_at, task.application_id, task.allocation_key))
        self._confirmations += [released for released in message.released if released.termination_type in _STARTED_BY_SCHEDULER]

    def _answer(self, asked: si.PredicatesRequest) -> None:
        """Every tenth node has not what the asks need; every eighth check gets no answer."""
        answers = [
            si.PredicateAnswer(
                predicate=check.predicate,
                node_id=check.node_id,
                allocate=check.allocate,
                error="its volume is elsewhere" if check.node_id.endswith("0") else "",
            )
            for check in asked.checks
            if hash_of(check.predicate) % 8
        ]
        assert self._line is not None
        if not self._line.has_ended:
            self._line.send(si.PredicatesResponse(answers=answers))

    def releases(self) -> list[si.AllocationRelease]:
        """Releases of the tasks that end now, and confirmations of those that the scheduler has released."""
        taken, self._confirmations = self._confirmations, []
        while self._ends and self._ends[0][0] <= trio.current_time():
            _, application_id, key = heapq.heappop(self._ends)
            taken.append(
                si.AllocationRelease(
                    application_id=application_id, allocation_key=key, termination_type=TerminationType.STOPPED_BY_RM.value
                )
            )
        return taken


def hash_of(name: str) -> int:
    """The same in every process."""
    return sum(name.encode())
