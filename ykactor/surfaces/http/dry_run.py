"""``/v1/dry-run``: what would become of new work, tried on a copy of the present state in a process of its own."""

from __future__ import annotations

from typing import Any

import msgspec
import trio
from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.view import View
from ykactor.actors.bases import durable_base
from ykactor.actors.gateway import ReadGateway
from ykactor.actors.pauses import drive
from ykactor.core.messages.submissions import AddApplication, RefuseEntry
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import US_NS
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.submissions import permitted
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.surfaces.http.app import caller_of, view_for
from ykactor.surfaces.http.body import body_of
from ykactor.surfaces.http.published import NO_PARTITION
from ykactor.surfaces.http.replies import Page, reply
from ykactor.surfaces.http.trial import Trial, tried
from ykactor.surfaces.net.requests import RETRY, RefusedError
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.lengths import shortened
from ykactor.wire.si.protocol_error import ProtocolError

#: Bytes of a body: they are read at once, in a few ms.
BODY_MAX = 2**20
#: The time for one of them; the next one is refused meanwhile.
LIMIT_S = 30.0
#: How long work is tried, in seconds of the copy.
SECONDS, SECONDS_MAX = 60.0, 86_400.0
_BUSY = "BUSY: another dry run is being computed: try again"


class NewAsk(si.Allocation, frozen=True):
    """An ask, and how long its task runs; None: nobody knows."""

    run_seconds: float | None = None


class NewWork(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request: applications that are submitted, then asks, of them or of applications that there are."""

    applications: list[si.AddApplicationRequest] = []
    allocations: list[NewAsk] = []
    seconds: float = SECONDS


_decode = msgspec.json.Decoder(NewWork).decode


class DryRuns:
    """Answers requests, one after the other; a request that comes meanwhile is refused."""

    def __init__(self, gateway: ReadGateway) -> None:
        self._gateway = gateway
        self._is_busy = False

    async def answer(self, request: Request) -> Response:
        """``/v1/dry-run``."""
        work = read(await body_of(request, BODY_MAX))
        applications = await _permitted(caller_of(request), work)
        if self._is_busy:
            raise RefusedError(503, _BUSY, RETRY)
        self._is_busy = True
        try:
            with trio.fail_after(LIMIT_S):  # a partition that waits for the disk makes no copy
                trial = await self._trial(applications, work, view_for(request))
            found = await in_helper_process(tried, msgspec.msgpack.encode(trial), limit_s=LIMIT_S)
        except trio.TooSlowError:
            raise RefusedError(
                503, f"the dry run took longer than {LIMIT_S:g} s: ykactor submit --dry-run may take more"
            ) from None
        except HelperProcessError as error:
            raise RefusedError(503, f"the process that computes the dry run failed: {shortened(str(error))}") from error
        finally:
            self._is_busy = False
        return await reply(request, Page(200, [found]))

    async def _trial(self, applications: si.ApplicationRequest, work: NewWork, view: View | None) -> Trial:
        """The work with copies of the partitions that it names."""
        known = {name.lower(): name for name in self._gateway.partitions}
        names = [*(each.partition_name for each in applications.new), *(each.partition_name for each in work.allocations)]
        named = {requests.partition_named(name).lower() for name in names}
        if not named <= known.keys():
            raise RefusedError(404, NO_PARTITION)
        bases = dict[PartitionName, bytes]()
        for name in sorted(known[each] for each in named):
            try:
                bases[name] = await durable_base(self._gateway, name)
            except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
                raise RefusedError(503, f"partition {name} does not run at the moment", RETRY) from None
        now_ns = -(-self._gateway.now_ns() // US_NS) * US_NS
        asks = si.AllocationRequest(allocations=[_plain(ask) for ask in work.allocations])
        ends = {index: ask.run_seconds for index, ask in enumerate(work.allocations) if ask.run_seconds is not None}
        queues = None if view is None or view.queues is None else tuple(sorted(view.queues))
        return Trial(now_ns, work.seconds, bases, applications, asks, ends, queues)


def _plain(ask: NewAsk) -> si.Allocation:
    return si.Allocation(**{name: getattr(ask, name) for name in si.Allocation.__struct_fields__})


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


async def _permitted(caller: Caller, work: NewWork) -> si.ApplicationRequest:
    """The applications with the groups that count, if the caller may submit all of the work.

    Raises:
        RefusedError: it may not, or an entry is wrong.
    """
    submitted = si.ApplicationRequest(new=work.applications)
    try:
        caller.check(submitted)
        caller.check(si.AllocationRequest(allocations=work.allocations))
        given = await drive(requests.submitting(submitted))
    except ProtocolError as error:
        raise RefusedError(403 if error.code == "NOT_PERMITTED" else 400, str(error)) from None
    kept: dict[tuple[str, str], AddApplication] = {}
    for name, submissions in given.items():
        found, _ = await drive(permitted(caller.identity, submissions))
        for sent, each in zip(submissions, found, strict=True):
            if isinstance(each, RefuseEntry) and not isinstance(sent, RefuseEntry):
                raise RefusedError(403, each.rejected.reason)
            if isinstance(each, AddApplication):
                kept[name, each.application_id] = each
    return si.ApplicationRequest(new=[_with_groups(each, kept) for each in work.applications])


def _with_groups(new: si.AddApplicationRequest, kept: dict[tuple[str, str], AddApplication]) -> si.AddApplicationRequest:
    found: Any = kept.get((requests.partition_named(new.partition_name), new.application_id))
    if found is None or found.groups is None:
        return new
    return structs.replace(new, ugi=si.UserGroupInformation(user=found.user, groups=list(found.groups)))
