"""The explanation of a pending ask with changes, for a caller that has no copy of the state."""

from __future__ import annotations

from msgspec import msgpack

from ykactor.access.explanations import limited
from ykactor.access.view import View
from ykactor.actors.gateway import ReadGateway
from ykactor.core.inspection.finding import Match
from ykactor.core.values.times import US_NS
from ykactor.surfaces.copies.computing import Computing
from ykactor.surfaces.copies.questions import Changes
from ykactor.wire.si import messages as si


async def computed(
    computing: Computing, gateway: ReadGateway, view: View | None, match: Match, *, may_preempt: bool
) -> si.Explanation | None:
    """The explanation, from the process that answers from copies; None if the application has no such task.

    Raises:
        NotComputedError
    """
    sight = limited(view)
    queues = None if sight is None or sight.queues is None else tuple(sorted(sight.queues))
    with computing.claimed():
        question = Changes(-(-gateway.now_ns() // US_NS) * US_NS, match, may_preempt, queues)
        data = await computing.answer(gateway, [match.partition], question)
    found: si.Explanation | None = msgpack.decode(data, type=si.Explanation | None)
    return found
