"""The reader of HTTP/1.1 requests in the bytes of a connection."""

from http import HTTPStatus
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import scaled

from ykactor.surfaces.net.requests import HEAD_BYTES_MAX, Head, RefusedError, RequestReader

HOST = b"Host: localhost\r\n"
GET = b"GET /a?b=%20 HTTP/1.1\r\n" + HOST
UPGRADES = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def read(parts: list[bytes]) -> list[object]:
    """The results of reading: the fields of a head that matter, the whole of a body, the status of a mistake."""
    reader, found = RequestReader(), list[object]()
    for part in parts:
        reader.receive(part)
        try:
            while (event := reader.next()) is not None:
                if isinstance(event, Head):
                    found.append((event.method, event.target, event.version, event.headers, event.keeps_alive))
                elif event == b"" or not found or not isinstance(found[-1], bytes) or found[-1] == b"":
                    found.append(event)
                else:
                    found[-1] += event
        except RefusedError as error:
            found.append(error.status)
            break
    reader.close()
    return found


def head(method: str = "GET", target: bytes = b"/a?b=%20", *more: tuple[bytes, bytes], keeps_alive: bool = True) -> object:
    return (method, target, "1.1", [(b"host", b"localhost"), *more], keeps_alive)


UPGRADE = (b"connection", b"Upgrade"), (b"upgrade", b"h2c")
RIGHT: dict[str, tuple[bytes, list[object]]] = {
    "nothing": (b"", []),
    "one": (GET + b"\r\n", [head(), b""]),
    "empty lines before it": (b"\r\n\r\n" + GET + b"\r\n", [head(), b""]),
    "several": ((GET + b"\r\n") * 3, [head(), b""] * 3),
    "headers without values": (
        GET + b"X-A:\r\nX-B: \r\nX-C:c \t\r\n\r\n",
        [head("GET", b"/a?b=%20", (b"x-a", b""), (b"x-b", b""), (b"x-c", b"c")), b""],
    ),
    "a body": (
        b"PUT /a HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\nab\r\n\r\nde" + GET + b"\r\n",
        [head("PUT", b"/a", (b"content-length", b"8")), b"ab\r\n\r\nde", b"", head(), b""],
    ),
    "a body in chunks with what follows it": (
        b"PUT /a HTTP/1.1\r\n" + HOST + CHUNKED + b"3;x=1\r\nabc\r\n1\r\nd\r\n0\r\nHost: other\r\n\r\n" + GET + b"\r\n",
        [head("PUT", b"/a", (b"transfer-encoding", b"chunked")), b"abcd", b"", head(), b""],
    ),
    "another protocol is asked for": (
        (GET + UPGRADES + b"\r\n") * 2 + GET + b"\r\n",
        [head("GET", b"/a?b=%20", *UPGRADE), b"", head("GET", b"/a?b=%20", *UPGRADE), b"", head(), b""],
    ),
    "the last one": (
        GET + b"Connection: close\r\n\r\n",
        [head("GET", b"/a?b=%20", (b"connection", b"close"), keeps_alive=False), b""],
    ),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", [("GET", b"/", "1.0", [], False), b""]),
    "HTTP/1.0 that goes on": (
        b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" * 2,
        [("GET", b"/", "1.0", [(b"connection", b"Keep-Alive")], True), b""] * 2,
    ),
    "HTTP/1.0 that says both": (
        b"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
        [("GET", b"/", "1.0", [(b"connection", b"keep-alive, close")], False), b""],
    ),
    "a later minor version": (b"GET /a HTTP/1.2\r\n" + HOST + b"\r\n" + GET + b"\r\n", [head("GET", b"/a"), b"", head(), b""]),
    "a later minor version behind a body": (
        GET + b"Content-Length: 1\r\n\r\naGET /a HTTP/1.9\r\n" + HOST + b"\r\n",
        [head("GET", b"/a?b=%20", (b"content-length", b"1")), b"a", b"", head("GET", b"/a"), b""],
    ),
    "a later minor version behind chunks": (
        GET + CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\nGET /a HTTP/1.9\r\n" + HOST + b"\r\n",
        [head("GET", b"/a?b=%20", (b"transfer-encoding", b"chunked")), b"\r\n\r\n", b"", head("GET", b"/a"), b""],
    ),
    "chunks in other letters": (
        GET + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
        [head("GET", b"/a?b=%20", (b"transfer-encoding", b"CHUNKED")), b""],
    ),
    "the whole server": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", [head("OPTIONS", b"*"), b""]),
    "the whole server, as to a proxy": (b"OPTIONS http://localhost HTTP/1.1\r\n" + HOST + b"\r\n", [head("OPTIONS", b"*"), b""]),
    "as to a proxy": (b"GET HTTP://localhost/a/b?c HTTP/1.1\r\nHost: other\r\n\r\n", [head("GET", b"/a/b?c"), b""]),
    "as to a proxy, with an address in the query": (
        b"GET http://localhost/a?b=http://c/d HTTP/1.1\r\n" + HOST + b"\r\n",
        [head("GET", b"/a?b=http://c/d"), b""],
    ),
    "as to a proxy, without a path": (b"GET http://localhost?a=b/c HTTP/1.1\r\nHost: x\r\n\r\n", [head("GET", b"/?a=b/c"), b""]),
    "as to a proxy, with nothing but a host": (b"GET https://localhost HTTP/1.1\r\nHost: x\r\n\r\n", [head("GET", b"/"), b""]),
    "a head of the largest size": (
        GET + b"X: " + b"x" * (HEAD_BYTES_MAX - 100) + b"\r\n\r\n",
        [head("GET", b"/a?b=%20", (b"x", b"x" * (HEAD_BYTES_MAX - 100))), b""],
    ),
}

BAD, LONG = HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
UNKNOWN, VERSION = HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
WRONG: dict[str, tuple[bytes, list[object]]] = {
    "no request": (b"nonsense\r\n\r\n", [BAD]),
    "a wrong second one": (GET + b"\r\nnonsense\r\n\r\n" + GET + b"\r\n", [head(), b"", BAD]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [BAD]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [VERSION]),
    "HTTP/3": (b"GET / HTTP/3.0\r\n" + HOST + b"\r\n", [VERSION]),
    "HTTP/1.10": (b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", [BAD]),
    "no version": (b"GET /\r\n\r\n", [BAD]),
    "two spaces before the target": (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "two spaces behind the target": (b"GET /  HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "a space behind the version": (b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", [BAD]),
    "a space before the method": (b" GET / HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "a tab": (b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "two spaces behind a body": (
        GET + b"Content-Length: 1\r\n\r\naGET  / HTTP/1.1\r\n" + HOST + b"\r\n",
        [head("GET", b"/a?b=%20", (b"content-length", b"1")), b"a", b"", BAD],
    ),
    "two spaces behind chunks": (
        GET + CHUNKED + b"1\r\na\r\n0\r\nX: y\r\n\r\nGET  / HTTP/1.1\r\n" + HOST + b"\r\n",
        [head("GET", b"/a?b=%20", (b"transfer-encoding", b"chunked")), b"a", b"", BAD],
    ),
    "an unknown encoding": (GET + b"Transfer-Encoding: br\r\n\r\n", [UNKNOWN]),
    "an unknown encoding, then chunks": (GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", [UNKNOWN]),
    "an unknown encoding, then chunks, in two headers": (
        GET + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        [UNKNOWN],
    ),
    "something like chunks": (GET + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", [UNKNOWN]),
    "no encoding": (GET + b"Transfer-Encoding: identity\r\n\r\n", [UNKNOWN]),
    "chunks in chunks": (GET + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", [BAD]),
    "chunks in HTTP/1.0": (b"GET / HTTP/1.0\r\n" + CHUNKED + b"0\r\n\r\n", [BAD]),
    "the whole server of another method": (b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "as to a proxy, without a host": (b"GET http:///a HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "HTTP/0.9": (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", [BAD]),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", [BAD]),
    "two hosts": (GET + HOST + b"\r\n", [BAD]),
    "two lengths": (GET + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", [BAD]),
    "a length and chunks": (GET + b"Content-Length: 1\r\n" + CHUNKED + b"0\r\n\r\n", [BAD]),
    "lines that end in another way": (b"GET / HTTP/1.1\nHost: localhost\n\n", [BAD]),
    "a header that goes on in the next line": (GET + b"X: a\r\n b\r\n\r\n", [BAD]),
    "a space behind a name": (GET + b"X : a\r\n\r\n", [BAD]),
    "a path that is not ASCII": (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", [BAD]),
    "another protocol, with a body": (GET + UPGRADES + b"Content-Length: 3\r\n\r\n" + GET + b"\r\n", [BAD]),
    "a wrong chunk": (GET + CHUNKED + b"zz\r\n", [head("GET", b"/a?b=%20", (b"transfer-encoding", b"chunked")), BAD]),
    "a path without end": (b"GET /" + b"a" * 3 * HEAD_BYTES_MAX, [LONG]),
    "a header without end": (GET + b"X: " + b"x" * 3 * HEAD_BYTES_MAX, [LONG]),
    "a head that is too long": (GET + b"X: x\r\n" * HEAD_BYTES_MAX + b"\r\n", [LONG]),
    "empty lines without end": (b"\r\n" * 3 * HEAD_BYTES_MAX, [LONG]),
    "a chunk whose size has no end": (
        GET + CHUNKED + b"1;" + b"x" * 3 * HEAD_BYTES_MAX,
        [head("GET", b"/a?b=%20", (b"transfer-encoding", b"chunked")), LONG],
    ),
}


@pytest.mark.parametrize(("sent", "found"), [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_what_is_found(sent: bytes, found: list[object]) -> None:
    """SE-91, SE-96: whatever can be read in two ways is a mistake, and nothing behind a mistake is looked at."""
    assert read([sent]) == found


@pytest.mark.parametrize(("sent", "found"), [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_it_is_the_same_however_it_arrives(sent: bytes, found: list[object]) -> None:
    """A request may arrive in two pieces, cut at each byte of its beginning (a long one at each tenth), or in many."""
    chance = Random(len(sent))
    cuts = [[at] for at in range(0, min(len(sent), 300), 1 if len(sent) < 1000 else 10)]
    cuts += [sorted(chance.choices(range(300), k=chance.randint(2, 6))) for _ in range(scaled(100))]
    for cut in cuts:
        parts = [sent[start:end] for start, end in zip([0, *cut], [*cut, len(sent)], strict=True)]
        assert read(parts) == found, cut


@pytest.mark.parametrize(("sent", "found"), [*RIGHT.values(), *WRONG.values()], ids=[*RIGHT, *WRONG])
def test_byte_by_byte(sent: bytes, found: list[object]) -> None:
    """The smallest pieces."""
    assert read([sent[at : at + 1] for at in range(len(sent))]) == found


#: What leaves the connection open, and what ends it.
LASTING = [each for each in RIGHT.values() if not any(isinstance(event, tuple) and not event[4] for event in each[1])]
Sent = tuple[bytes, list[object]]


@given(
    several=st.lists(st.sampled_from(LASTING), max_size=6),
    last=st.sampled_from([*RIGHT.values(), *WRONG.values()]),
    cut=st.lists(st.integers(0, 2000), max_size=8).map(sorted),
)
def test_requests_in_any_order(several: list[Sent], last: Sent, cut: list[int]) -> None:
    """SE-91: each is found where it begins, whatever was before it and however it arrives."""
    sent = b"".join(each for each, _ in [*several, last])
    parts = [sent[start:end] for start, end in zip([0, *cut], [*cut, len(sent)], strict=True)]
    assert read(parts) == [event for _, found in [*several, last] for event in found]


def test_a_mistake_stays() -> None:
    """Each call says it."""
    reader = RequestReader()
    reader.receive(b"nonsense\r\n\r\n")
    for _ in range(2):
        with pytest.raises(RefusedError, match="found no first line"):
            reader.next()
        reader.receive(GET + b"\r\n")


def test_what_follows_is_kept_as_it_is() -> None:
    """Requests that were not asked for take as many bytes as they have."""
    reader = RequestReader()
    reader.receive((GET + b"\r\n") * 1000)
    assert isinstance(reader.next(), Head)
    assert reader.left_bytes == 999 * len(GET + b"\r\n")
