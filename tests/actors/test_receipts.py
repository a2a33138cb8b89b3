"""Receipts: which requests a start has to answer, and in what words."""

import msgspec
import pytest
import trio
from recorded import no_failure
from world import load, node, queue, tree

from ykactor.actors.clock import Clock
from ykactor.actors.commands import UNHEARD, Administer, Awaited, Intake, Publication, Quiesce
from ykactor.actors.hand import CHUNK_MAX
from ykactor.actors.journal import History, Recording
from ykactor.actors.outbox import Requests
from ykactor.actors.partition import PartitionActor
from ykactor.actors.receipts import Accepted, Receipt, unanswered
from ykactor.core.messages.acts import MoveApplication
from ykactor.journal.transaction import changed_records
from ykactor.surfaces.sessions.pending import late_answer
from ykactor.wire.history import encode_cause
from ykactor.wire.si import messages as si

BOTH = ("default", "east")


def records(*receipts):
    """The journal records of receipts: (request, partition, whether it is done, why it refused)."""
    texts = [accepted.receipt(partition, is_done=is_done, refusal=refusal) for accepted, partition, is_done, refusal in receipts]
    return dict(changed_records(b"".join(texts)))


def accepted(number, request_id, *partitions):
    found = Accepted(number, request_id)
    found.partitions = partitions
    return found


def answers(found):
    return [late_answer(request) for request in unanswered(found)]


def test_what_all_partitions_have_done_is_acknowledged():
    """Requests are acknowledged in their order, whatever the order of the records."""
    first, second = accepted(9, "r-first", *BOTH), accepted(10, "r-second", "east")
    found = records((second, "east", True, ""), (first, "default", True, ""), (first, "east", True, ""))
    assert answers(found) == [si.Ack(id="r-first"), si.Ack(id="r-second")]
    assert {key for request in unanswered(found) for key in request.keys} == {*first.keys(), *second.keys()}


@pytest.mark.parametrize("there", [[("default", True)], [("default", True), ("east", False)], [("east", False)]])
def test_what_is_carried_out_in_part_is_interrupted(there):
    """A partition has not begun or not finished."""
    request = accepted(1, "r-1", *BOTH)
    (answer,) = answers(records(*((request, partition, is_done, "") for partition, is_done in there)))
    assert (answer.id, answer.code) == ("r-1", "INTERRUPTED")


def test_a_refusal_is_said_again():
    """The partition has refused, and that has become durable."""
    found = records((accepted(1, "r-1", "default"), "default", True, "no such application"))
    assert answers(found) == [si.ErrorResponse(code="REFUSED", message="no such application", id="r-1")]


def test_other_records_are_no_receipts():
    """The daemon has other rows of its own, and a partition may be called request."""
    assert unanswered({b'["","config"]': b"{}", b'["request","task",1]': b"{}"}) == []


async def receipts_of(*commands):
    """The receipts that the turns of a partition leave, turn by turn, as (request, whether it is done, why it refused)."""
    told = []

    async def publish(command):
        told.append(command)

    async def room():
        await trio.lowlevel.checkpoint()

    actor = PartitionActor(
        load(tree(queue("a"))), Clock(0), publish, recording=Recording(room, encode_cause, History(), no_failure)
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        for command in commands:
            actor.inbox.put_nowait(command)
        done = Awaited()
        await actor.inbox.put(Quiesce(done))
        await done.wait()
        nursery.cancel_scope.cancel()
    turns = [changed_records(b"".join(told.turn.changes)) for told in told if isinstance(told, Publication)]
    found = [
        [msgspec.json.decode(data, type=Receipt) for key, data in turn if key.startswith(b'["","request"')] for turn in turns
    ]
    return [[(receipt.request_id, receipt.is_done, receipt.refusal) for receipt in some] for some in found if some]


async def test_each_turn_leaves_receipts(autojump_clock):
    """A large request takes several turns, and small ones share a turn; one that wants no answer leaves nothing."""
    nodes = [node(f"n{number}", vcore=1) for number in range(CHUNK_MAX + 10)]
    large, small = accepted(1, "large", "default"), accepted(2, "small", "default")
    commands = [Intake(nodes, accepted=large), Intake([node("m", vcore=1)], accepted=small), Intake([node("k", vcore=1)])]
    assert await receipts_of(*commands) == [[("large", False, "")], [("large", True, ""), ("small", True, "")]]


async def test_a_refused_request_leaves_the_reason(autojump_clock):
    """So that it is not acknowledged after a restart."""
    move = Administer(MoveApplication("nobody", "root.a", None), UNHEARD, accepted=accepted(1, "move", "default"))
    ((receipt,),) = await receipts_of(move)
    assert receipt[:2] == ("move", True)
    assert "nobody" in receipt[2]


async def test_who_waits_for_all_answers(autojump_clock):
    """``all_answered`` waits until each request is answered, or its session answers nothing more."""
    requests = Requests(None)
    ours, theirs = object(), object()
    first, second = requests.accept("r-1", ours), requests.accept("r-2", theirs)
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def wait():
            await requests.all_answered()
            done.set()

        nursery.start_soon(wait)
        requests.answered([first])
        await trio.sleep(1)
        assert not done.is_set()
        requests.leave(theirs)
        await done.wait()
    assert second.number == first.number + 1
