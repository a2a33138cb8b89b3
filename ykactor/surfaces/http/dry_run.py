"""``/v1/dry-run``: what would become of new work, tried on a copy of the present state in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.gateway import Gateway
from ykactor.actors.pauses import pause
from ykactor.core.messages.acts import Act
from ykactor.core.messages.submissions import Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import in_parts
from ykactor.core.values.times import US_NS
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.submissions import admitted, read_work
from ykactor.surfaces.copies import questions
from ykactor.surfaces.copies.questions import Sent, Tried
from ykactor.surfaces.http.app import caller_of, view_for
from ykactor.surfaces.http.body import body_of
from ykactor.surfaces.http.computed import computing
from ykactor.surfaces.http.published import NO_PARTITION
from ykactor.surfaces.http.replies import Page, error_page, reply
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.history import encode_cause
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.lengths import shortened
from ykactor.wire.si.protocol_error import ProtocolError

#: Bytes of a body: they are read at once, in a few ms.
BODY_MAX = 2**20
#: How long work is tried, in seconds of the copy.
SECONDS, SECONDS_MAX = 60.0, 86_400.0


class NewAsk(si.Allocation, frozen=True):
    """An ask, and how long its task runs; None: nobody knows."""

    run_seconds: float | None = None


class NewWork(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request: applications that are submitted, then asks, of them or of applications that there are."""

    applications: list[si.AddApplicationRequest] = []
    allocations: list[NewAsk] = []
    seconds: float = SECONDS

    @property
    def partition_names(self) -> list[str]:
        """The names of partitions in it."""
        return [*(each.partition_name for each in self.applications), *(each.partition_name for each in self.allocations)]


_decode = msgspec.json.Decoder(NewWork).decode


class DryRuns:
    """Answers requests.

    Args:
        acting: at a replica, which takes no work, the address of its daemon.
    """

    def __init__(self, acting: Gateway | str) -> None:
        self._acting = acting

    async def answer(self, request: Request) -> Response:
        """``/v1/dry-run``."""
        if isinstance(self._acting, str):
            raise RefusedError(403, f"this is a replica, which only answers readers: ask the daemon at {self._acting}")
        gateway, work = self._acting, read(await body_of(request, BODY_MAX))
        caller, admission = caller_of(request), request.state.connection.admission
        names = _named(gateway, work)
        view = view_for(request)
        queues = None if view is None or view.queues is None else tuple(sorted(view.queues))
        try:
            with computing(request) as process, process.claimed():
                sent = await _sent(gateway, caller, admission.audit, work)
                question = await _question(gateway, work, names, sent, queues)
                data = await process.answer(gateway, [*names.values()], question)
        except ProtocolError as error:
            return await reply(request, error_page(403 if error.code == "NOT_PERMITTED" else 400, str(error)))
        answer = msgspec.msgpack.decode(data, type=Tried)
        for reason in answer.refused:
            admission.audit.refused(caller, Act.SEND, ", ".join(names.values()), reason)
        return await reply(request, Page(200, [answer.body]))


def read(body: bytes) -> NewWork:
    """The work of a body.

    Raises:
        RefusedError: it is wrong.
    """
    try:
        work = _decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"found a wrong body: {shortened(str(error))}") from None
    _check_seconds("seconds", work.seconds)
    for number, ask in enumerate(work.allocations):
        if ask.run_seconds is not None:
            _check_seconds(f"allocations[{number}].runSeconds", ask.run_seconds)
        if ask.node_id:
            found = f"found {shortened(ask.node_id)}, expected none: the node is to be found"
            raise RefusedError(400, f"allocations[{number}].nodeID: {found}")
    return work


def _check_seconds(path: str, seconds: float) -> None:
    if not 0 <= seconds <= SECONDS_MAX:
        raise RefusedError(400, f"{path}: found {seconds:g}, expected a number from 0 to {SECONDS_MAX:g}")


def _named(gateway: Gateway, work: NewWork) -> dict[str, PartitionName]:
    """The running partitions that work names, by these names in lower case.

    Raises:
        RefusedError: one does not run.
    """
    known = {name.lower(): name for name in gateway.partitions}
    named = {requests.partition_named(name).lower() for name in work.partition_names}
    if not named <= known.keys():
        raise RefusedError(404, NO_PARTITION)
    return {name: known[name] for name in sorted(named)}


# ---- as a resource manager would send it


async def _sent(gateway: Gateway, caller: Caller, audit: AuditLog, work: NewWork) -> list[Sent]:
    """The inputs that partitions would get of work.

    Raises:
        ProtocolError: the caller may not send it, or an entry is wrong.
    """
    found = list[Sent]()
    limits = caller.identity.limits.held(caller.identity.name)
    messages = si.ApplicationRequest(new=work.applications), si.AllocationRequest(allocations=work.allocations)
    for message in messages:
        try:
            caller.check(message)
        except ProtocolError as error:
            audit.not_permitted(caller, message, error)
            raise
        read = await read_work(message, gateway.ahead_ns())
        for name, submissions in (await admitted(gateway, caller, audit, message, read)).items():
            found.append(Sent(name, await _encoded(submissions), limits))
    return found


async def _encoded(submissions: Sequence[Submission]) -> list[bytes]:
    parts = list[bytes]()
    for part in in_parts(submissions):
        parts.append(encode_cause(Input(part)))
        await pause()
    return parts


async def _question(
    gateway: Gateway, work: NewWork, names: Mapping[str, PartitionName], sent: list[Sent], queues: tuple[str, ...] | None
) -> questions.NewWork:
    asks = list[tuple[PartitionName, str, str]]()
    for part in in_parts(work.allocations):
        for ask in part:
            name = names[requests.partition_named(ask.partition_name).lower()]
            asks.append((name, shortened(ask.application_id), shortened(ask.allocation_key)))
        await pause()
    run_seconds = {place: ask.run_seconds for place, ask in enumerate(work.allocations) if ask.run_seconds is not None}
    begin_ns = -(-gateway.now_ns() // US_NS) * US_NS
    return questions.NewWork(begin_ns, work.seconds, sent, asks, run_seconds, queues)
