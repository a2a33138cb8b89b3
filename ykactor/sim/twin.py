"""A twin: a copy of a partition at rest, on which changes are tried, each in a process of its own that is forked from it.

So a partition is loaded once, and no try changes it. Nothing of a daemon changes: it runs elsewhere.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.inspection.changes import Change, Found, Search, Wait
from ykactor.core.inspection.explaining import Everything, Sight
from ykactor.core.messages.asks import AskID
from ykactor.core.messages.asks import ask_id as id_of
from ykactor.core.messages.facts import Fact, Preempted
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import ReleaseAllocations
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.causes import PendingCauses
from ykactor.sim.candidates import Situation, families, next_part
from ykactor.sim.changes import apply
from ykactor.sim.direct import DirectPartition
from ykactor.sim.smallest import Attempt, EndedError, Outcome, search
from ykactor.sim.told import ToldEnds

#: How long a try goes on when the ask may preempt: longer than victims are waited for.
_PREEMPTING_NS = 60 * S_NS
_WOULD_PREEMPT = "it would preempt others for it, which it may only with --preempt"
#: How far a try looks that only waits, and how often something happens meanwhile.
_WAIT_MAX_S = 24 * 3600
_WAKES_MAX = 10_000


class Twin:
    """A copy of a partition, at rest.

    Args:
        cores: its own.
        now_ns: the Unix time, in whole microseconds.
        ask_id: the pending ask that is to be placed.
        sight: of a reader that is limited to queues.
        may_preempt: True if the ask may preempt, which takes up to a minute.
    """

    def __init__(
        self, cores: Cores, now_ns: int, ask_id: AskID, sight: Sight | None = None, *, may_preempt: bool = False
    ) -> None:
        self._preempted: set[AskID] = set()
        self._ends: ToldEnds | None = None
        self.partition = DirectPartition(
            cores[0].registry.config, CYCLE_BUDGET, self._observe, now_ns=now_ns, wakes=True, cores=cores
        )
        self._ask_id, self._now_ns, self._may_preempt = ask_id, now_ns, may_preempt
        self._sight = sight
        self.partition.intake(now_ns, [])
        self._preempted.clear()

    def _observe(self, facts: list[Fact]) -> None:
        if self._ends is not None:
            for fact in facts:
                self._ends.observe(self.partition.core.name, fact)
        self._preempted |= {id_of(fact.ask) for fact in facts if isinstance(fact, Preempted)}

    @property
    def is_waiting(self) -> bool:
        """True if the ask is pending."""
        application = self.partition.scheduler.state.applications.get(self._ask_id[0])
        return application is not None and self._ask_id[1] in application.asks

    def placement(self) -> tuple[NodeID, int] | None:
        """The node on which the ask runs or is about to replace a placeholder, and since when; None if it does neither."""
        registry = self.partition.core.registry
        application_id, key = self._ask_id
        if application_id not in registry.applications:
            return None
        tasks = registry.leaf_of(application_id).applications[application_id].tasks
        if key in tasks.allocations:
            return tasks.allocations[key][1], tasks.began_ns[key]
        replacing = (node_id for ask, node_id in tasks.replacing.values() if ask.allocation_key == key)
        return next(((node_id, self._now_ns) for node_id in replacing), None)

    def try_here(self, changes: Sequence[Change], explains: bool = False) -> Outcome:
        """Make changes, run until nothing more can be decided, and look at the ask. The twin is of no use afterwards."""
        refusal = apply(self.partition, self._ask_id, changes, self._now_ns)
        if refusal:
            return Outcome(reason=refusal if self._sight is None else "")
        if self._may_preempt:
            self.partition.advance(self._now_ns + _PREEMPTING_NS)
        if (placed := self.placement()) is not None and (self._may_preempt or self._ask_id not in self._preempted):
            return Outcome(*placed)
        if placed is not None or not self.is_waiting:
            return Outcome(reason=_WOULD_PREEMPT if placed else "it has ended")
        state = self.partition.scheduler.state
        application = state.applications[self._ask_id[0]]
        cause = PendingCauses(state).of_ask(application, self._ask_id[1])
        told = (self._sight or Everything()).reason(cause, application.asks[self._ask_id[1]][0].resource)
        part = next_part(Situation(self.partition, self._ask_id), self._now_ns) if explains else None
        return Outcome(reason=": ".join(filter(None, (cause.code.value, told))), next_part=part)

    def wait_here(self) -> Outcome:
        """Let time go on until the ask is placed: by what the partition does by itself, or when tasks end as told.

        The twin is of no use afterwards.
        """
        self._ends = ends = ToldEnds({self.partition.core.name: self.partition})
        ends.resume(self._now_ns)
        beyond_ns = self._now_ns + _WAIT_MAX_S * S_NS + 1
        for _ in range(_WAKES_MAX):
            wakes_ns = self.partition.next_ns()
            at_ns = min(ends.next_ns(beyond_ns), beyond_ns if wakes_ns is None else wakes_ns)
            if at_ns == beyond_ns:
                break
            if at_ns == wakes_ns:
                self.partition.advance(at_ns)
                if (placed := self.placement()) is not None:
                    return Outcome(*placed)
            elif (outcome := self._end(ends, at_ns)) is not None:
                return outcome
        return Outcome()

    def _end(self, ends: ToldEnds, at_ns: int) -> Outcome | None:
        """End tasks at their time, one after the other, until the ask is placed."""
        registry = self.partition.core.registry
        for _, owner, key in ends.ended(at_ns):
            task = ApplicationID(owner), AllocationKey(key)
            _, node_id = registry.leaf_of(task[0]).applications[task[0]].tasks.allocations[task[1]]
            self.partition.intake(at_ns, [ReleaseAllocations(*task, TerminationType.STOPPED_BY_RM)])
            if (placed := self.placement()) is not None:
                return Outcome(*placed, ended=(task, node_id))
        return None

    def smallest_changes(self, attempt: Attempt, wait: Callable[[], Outcome]) -> Search:
        """The smallest changes with which the ask is placed.

        Args:
            attempt, wait: run ``try_here`` and ``wait_here`` on copies of this twin.
        """

        def waited() -> Found | None:
            outcome = wait()
            change = Wait((outcome.at_ns - self._now_ns) / S_NS, *(outcome.ended or ()))
            return Found([change], outcome.node_id, outcome.at_ns) if outcome.node_id else None

        found = Situation(self.partition, self._ask_id)
        return search(families(found, self._now_ns, may_preempt=self._may_preempt), attempt, waited)


class Forks:
    """Makes tries in forked processes.

    Args:
        clock: tells seconds. seconds: after them every try has ended.
    """

    def __init__(self, twin: Twin, clock: Callable[[], float], seconds: float) -> None:
        gc.freeze()  # the collector would write to what the processes share
        self._twin, self._clock, self._until = twin, clock, clock() + seconds

    def attempt(self, changes: Sequence[Change], explains: bool) -> Outcome:
        """Make changes in a process of its own.

        Raises:
            EndedError: the time is over.
        """
        return self._in_fork(lambda: self._twin.try_here(changes, explains))

    def wait(self) -> Outcome:
        """Let time go on in a process of its own; raises as ``attempt``."""
        return self._in_fork(self._twin.wait_here)

    def _in_fork(self, work: Callable[[], Outcome]) -> Outcome:
        left_s = self._until - self._clock()
        if left_s <= 0:
            raise EndedError
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            signal.setitimer(signal.ITIMER_REAL, left_s + 1)  # if nobody is there any more to end it
            _run(work, writer)
        os.close(writer)
        try:
            data = self._read(reader)
        finally:
            os.close(reader)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if not data:
            raise RuntimeError("a try has failed, see above")
        return msgspec.json.decode(data, type=Outcome)

    def _read(self, reader: int) -> bytes:
        data = b""
        while (left_s := self._until - self._clock()) > 0:
            if select.select([reader], [], [], left_s)[0]:
                part = os.read(reader, 65536)
                if not part:
                    return data
                data += part
        raise EndedError


def _run(work: Callable[[], Outcome], writer: int) -> None:
    """Do the work of a forked process, write its outcome and end; its parent has the buffers and the cleaning up."""
    try:
        gc.disable()
        data = msgspec.json.encode(work())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(data)
    except Exception:
        os.write(2, traceback.format_exc().encode())  # by no buffer: that of the parent may have something
    finally:  # also after Ctrl-C: it must not go on as a copy of its parent
        os._exit(0)
