"""HTTP answers are sent such that their end can be found."""

from collections.abc import Awaitable, Callable
from functools import partial

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ykactor.surfaces.http.connections import Exchange, Line, head_of
from ykactor.surfaces.net.requests import Head, RequestReader
from ykactor.surfaces.net.transports import Transport


class Wire(Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def answer(self, data: bytes | memoryview) -> None:
        self.sent += data


def exchange_of(wire: Wire, method: str = "GET", version: str = "1.1", more: str = "") -> Exchange:
    reader = RequestReader()
    reader.receive(f"{method} / HTTP/{version}\r\nHost: localhost\r\n{more}\r\n".encode())
    head = reader.next()
    assert isinstance(head, Head)
    return Exchange(reader, Line(wire), head, send_large)


@pytest.mark.parametrize(("headers", "goes_on"), [(((b"content-length", b"2"),), True), ((), False)])
async def test_who_asks_to_go_on_in_an_old_version_is_told(headers: tuple[tuple[bytes, bytes], ...], goes_on: bool) -> None:
    """SE-91: HTTP/1.0 ends the connection unless the answer says otherwise, and has an end of its own."""
    wire = Wire()
    exchange = exchange_of(wire, version="1.0", more="Connection: keep-alive\r\n")
    await answer(exchange, [b"ok"], headers=headers)
    assert (b"connection: keep-alive\r\n" in wire.sent, b"connection: close\r\n" in wire.sent) == (goes_on, not goes_on)
    assert exchange.may_go_on() is goes_on
    assert wire.sent.endswith(b"\r\n\r\nok")


async def send_large(_: int, send: Callable[[], Awaitable[None]]) -> None:
    """Any part is sent at once."""
    await send()


async def answer(
    exchange: Exchange, parts: list[bytes], status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    await exchange.send({"type": "http.response.start", "status": status, "headers": list(headers)})
    for number, part in enumerate(parts, 1):
        await exchange.send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
    await exchange.end()


def read(wire: Wire, method: str) -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection goes on, as another library reads them; the body ends as the head says."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "localhost")]))
    client.send(h11.EndOfMessage())
    client.receive_data(wire.sent)
    head = client.next_event()
    assert isinstance(head, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += event.data
    if event is h11.NEED_DATA:
        client.receive_data(b"")
        event = client.next_event()
    assert isinstance(event, h11.EndOfMessage)
    return head.status_code, body, client.their_state is h11.DONE


@given(
    parts=st.lists(st.binary(max_size=20) | st.integers(0, 2**17).map(partial(bytes)), min_size=1, max_size=4),
    method=st.sampled_from(["GET", "HEAD", "PUT"]),
    version=st.sampled_from(["1.0", "1.1"]),
    status=st.sampled_from([200, 204, 304, 404]),
    has_length=st.booleans(),
)
async def test_another_library_finds_the_answer(
    parts: list[bytes], method: str, version: str, status: int, has_length: bool
) -> None:
    """SE-96: with a length, in chunks, until the end of the connection, and without a body."""
    wire = Wire()
    exchange = exchange_of(wire, method, version)
    whole = b"".join(parts)
    await answer(exchange, parts, status, ((b"content-length", b"%d" % len(whole)),) if has_length else ())
    found_status, body, goes_on = read(wire, method)
    assert (found_status, body) == (status, b"" if method == "HEAD" or status in (204, 304) else whole)
    assert goes_on == exchange.may_go_on() == (version == "1.1")


async def test_nothing_was_sent() -> None:
    """An application that has failed."""
    wire = Wire()
    exchange = exchange_of(wire)
    await exchange.end()
    assert read(wire, "GET") == (500, b"", False)


@pytest.mark.parametrize("parts", [[b"ab"], [b"ab", b""]])
async def test_a_body_that_is_too_short(parts: list[bytes]) -> None:
    """The connection ends: the client would take the next answer for the rest."""
    exchange = exchange_of(Wire())
    await answer(exchange, parts, headers=((b"content-length", b"3"),))
    assert not exchange.may_go_on()


async def test_a_body_that_is_too_long() -> None:
    """A body that is too long is a bug, and is not sent."""
    wire = Wire()
    with pytest.raises(ValueError, match="1 bytes more than Content-Length says"):
        await answer(exchange_of(wire), [b"abcd"], headers=((b"content-length", b"3"),))
    assert wire.sent == b""


async def test_an_answer_that_ends_the_connection() -> None:
    """The head of the last answer says that it ends the connection."""
    wire = Wire()
    exchange = exchange_of(wire)
    await answer(exchange, [b""], headers=((b"content-length", b"0"), (b"connection", b"close")))
    assert not exchange.may_go_on()
    assert wire.sent.count(b"connection: close") == 1


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nx: y", b"a\r"])
def test_a_header_has_one_line(value: bytes) -> None:
    """Whatever gets into it: there is no way to write a second header, or a body."""
    with pytest.raises(ValueError, match="end of a line"):
        head_of(200, [(b"location", value)])


async def test_others_run_between_the_parts_of_an_answer() -> None:
    """Also if the peer takes each at once: an answer of many megabytes holds up nobody."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await answer(exchange_of(Wire()), [b"part"] * 10, headers=((b"content-length", b"40"),))
        assert turns >= 5
        nursery.cancel_scope.cancel()
