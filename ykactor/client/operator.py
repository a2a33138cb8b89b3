"""The client of an operator."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypedDict, TypeVar, Unpack

import trio
from msgspec import structs
from trio_websocket import WebSocketConnection

from ykactor.client.connection import MessageStream, OnJournal, open_connection, open_feed
from ykactor.client.errors import RequestRefused
from ykactor.client.login import LoginOptions, login_of
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

A = TypeVar("A", si.Configuration, si.Health, si.Usage, si.Explanation)


class Operator:
    """A session of an operator, opened by `operate`. Several tasks may use it; their requests are carried out one by one."""

    def __init__(self, connection: WebSocketConnection, on_journal: OnJournal) -> None:
        self._stream = MessageStream(connection, JSON)
        self._on_journal = on_journal
        #: Held from a request to its answer.
        self._turn = trio.Lock()

    async def request(self, request: si.OperatorRequest) -> si.Ack:
        """Send a request and wait for its `si.Ack`: then its effect survives a restart of the daemon.

        Parameters
        ----------
        request : si.OperatorRequest
            Its ``id`` is replaced.

        Raises
        ------
        RequestRefused
            The daemon refused the request, which had no effect; with the code ``INTERRUPTED`` a part of it had.
        Disconnected
            It is not known whether the request took effect; the audit of the daemon tells.
        """
        request_id = secrets.token_hex(8)
        async with self._turn:
            await self._stream.send(structs.replace(request, id=request_id))
            answer = await self._stream.receive_response()
            # An answer that is left is of a task that was cancelled, and did not wait for it.
            while not isinstance(answer, si.Ack | si.ErrorResponse) or answer.id != request_id:
                if isinstance(answer, si.JournalStatus):
                    self._on_journal(answer)
                answer = await self._stream.receive_response()
        if isinstance(answer, si.ErrorResponse):
            raise RequestRefused(answer.code, answer.message, answer.path)
        return answer


@asynccontextmanager
async def operate(url: str, *, on_journal: OnJournal = lambda _: None, **login: Unpack[LoginOptions]) -> AsyncIterator[Operator]:
    """Connect as an operator, beside the registered resource manager or without any.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``, ``wss://HOST:9081`` or ``unix:PATH``.
    on_journal : callable
        Called with each `si.JournalStatus` that comes before an answer: what the answer waits for.
    **login
        Who this is (`LoginOptions`).

    Raises
    ------
    Disconnected
        Raised here, or later by `Operator.request`.

    Examples
    --------
    ::

        async with operate("ws://127.0.0.1:9081") as operator:
            await operator.request(si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action="DRAIN_NODE")]))
    """
    async with open_connection(url, "/v1/operator", login=login_of(login), subprotocols=[JSON.name]) as connection:
        yield Operator(connection, on_journal)


async def read_configuration(url: str, *, after: si.Ack | None = None, **login: Unpack[LoginOptions]) -> si.Configuration:
    """The queue configuration in force.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``, ``wss://HOST:9081`` or ``unix:PATH``.
    after : si.Ack
        The answer to a request of which the effect is to be seen, also at a replica, which may wait for it for 2 s.
    **login
        Who this is (`LoginOptions`).

    Raises
    ------
    Disconnected
        There is no connection.
    RequestRefused
        With the code ``UNAVAILABLE`` the replica has not come so far yet.
        The daemon does not let this one in, or shows it only a part of its queues and partitions.
    """
    return await _answer(url, si.ReadConfiguration(**_turns(after)), login, si.Configuration)


async def check_health(url: str, *, after: si.Ack | None = None, **login: Unpack[LoginOptions]) -> si.Health:
    """The health of the daemon, from checks of the last 30 s. Parameters and errors are as of `read_configuration`."""
    return await _answer(url, si.CheckHealth(**_turns(after)), login, si.Health)


async def read_usage(
    url: str,
    *,
    by: Sequence[str] = ("user",),
    first_day: str = "",
    last_day: str = "",
    partitions: Sequence[str] = (),
    after: si.Ack | None = None,
    **login: Unpack[LoginOptions],
) -> list[si.UsageRow]:
    """Use by tasks, waiting of asks and losses by preemption, in base units times seconds, in no order.

    Parameters
    ----------
    url, after, **login
        As of `read_configuration`.
    by : sequence of str
        What is summed up for itself: ``"day"``, ``"queue"``, ``"user"``, ``"group"``, ``"application"``.
    first_day, last_day : str
        Dates such as ``"2026-01-31"``, in UTC; all days by default.
    partitions : sequence of str
        Only what is in these; all together by default.

    Raises
    ------
    Disconnected, RequestRefused
        As `read_configuration`, and if a name is not known.
    """
    question = si.ReadUsage(by=list(by), first_day=first_day, last_day=last_day, partitions=list(partitions), **_turns(after))
    return (await _answer(url, question, login, si.Usage)).rows


async def explain(
    url: str,
    name: str,
    allocation_key: str = "",
    *,
    kind: Literal["", "ask", "application", "queue", "node"] = "",
    partition: str = "",
    changes: bool = False,
    preempt: bool = False,
    after: si.Ack | None = None,
    **login: Unpack[LoginOptions],
) -> si.Explanation:
    """Explain why an ask waits, what waits in a queue, or what could run on a node.

    Parameters
    ----------
    url, after, **login
        As of `read_configuration`.
    name : str
        Of an application, a queue, a node, or an ask.
    allocation_key : str
        An ask of the application; empty is the one that comes first.
    kind : str
        ``"application"``, ``"ask"``, ``"queue"`` or ``"node"``; empty is whichever has the name.
    partition : str
        Empty is the one that has the name.
    changes : bool
        Of an ask also the smallest changes with which it would be placed, which takes some seconds.
    preempt : bool
        With `changes`: it may preempt.

    Raises
    ------
    Disconnected, RequestRefused
        As `read_configuration`, and if nothing has the name, or several have.
    """
    question = si.Explain(
        name=name,
        allocation_key=allocation_key,
        kind=kind,
        partition_name=partition,
        changes=changes,
        preempt=preempt,
        **_turns(after),
    )
    return await _answer(url, question, login, si.Explanation)


class _Turns(TypedDict):
    """The fields of a question that say how new its answer has to be."""

    term: str
    turns: Mapping[str, int]


def _turns(after: si.Ack | None) -> _Turns:
    return {"term": "", "turns": {}} if after is None else {"term": after.term, "turns": after.turns}


async def _answer(
    url: str, question: si.ReadConfiguration | si.CheckHealth | si.ReadUsage | si.Explain, login: LoginOptions, kind: type[A]
) -> A:
    async with open_feed(url, login_of(login)) as stream:
        await stream.send(question)
        answer = await stream.receive_feed()
    assert isinstance(answer, kind), "it is the only answer"
    return answer
