"""Questions to the daemon that have one answer."""

from collections.abc import Sequence
from typing import Unpack

from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.errors import RequestRefused
from ykactor.client.login import Login, LoginOptions
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON


async def read_configuration(url: str, **login: Unpack[LoginOptions]) -> si.Configuration:
    """The queue configuration in force.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``, ``wss://HOST:9081`` or ``unix:PATH``.
    **login
        Who this is (`LoginOptions`).

    Raises
    ------
    Disconnected
        There is no connection.
    RequestRefused
        The daemon does not let this one in, or shows it only a part of its queues and partitions.
    """
    answer = await _answer(url, si.ReadConfiguration(), login)
    assert isinstance(answer, si.Configuration), "it is the only answer"
    return answer


async def check_health(url: str, **login: Unpack[LoginOptions]) -> si.Health:
    """Whether the daemon is well, from checks of the last 30 s. Parameters and errors are as of `read_configuration`."""
    answer = await _answer(url, si.CheckHealth(), login)
    assert isinstance(answer, si.Health), "it is the only answer"
    return answer


async def read_usage(
    url: str,
    *,
    by: Sequence[str] = ("user",),
    first_day: str = "",
    last_day: str = "",
    partitions: Sequence[str] = (),
    **login: Unpack[LoginOptions],
) -> list[si.UsageRow]:
    """What tasks have used, asks have waited for and preemption has lost, in base units times seconds, in no order.

    Parameters
    ----------
    url, **login
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
    question = si.ReadUsage(by=list(by), first_day=first_day, last_day=last_day, partitions=list(partitions))
    answer = await _answer(url, question, login)
    assert isinstance(answer, si.Usage), "it is the only answer"
    return answer.rows


async def _answer(
    url: str, question: si.ReadConfiguration | si.CheckHealth | si.ReadUsage, login: LoginOptions
) -> si.FeedMessage:
    async with open_connection(url, "/v1/feed", login=Login(**login), subprotocols=[JSON.name]) as connection:
        stream = MessageStream(connection, JSON)
        await stream.send(question)
        answer = JSON.decode_feed(await stream.receive())
    if isinstance(answer, si.ErrorResponse):
        raise RequestRefused(answer.code, answer.message, answer.path)
    return answer
