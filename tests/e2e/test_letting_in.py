"""Admission at the handshake, over real sockets: what is shown, what the daemon answers, and what it never tells."""

import logging
from collections.abc import Iterator
from functools import partial

import pytest
import trio
from accessfiles import NOW_NS
from callers import IDENTITIES, ROLES, SECRETS, WAYS, access, control_of, credentials, jwt_of
from doubles import FakeDaemon, running_daemon

from ykactor.access.credentials import Credentials
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.access.permissions import TABLE
from ykactor.surfaces.admission.access_control import AccessControl
from ykactor.surfaces.admission.caller import Admit, Caller
from ykactor.surfaces.admission.slots import JOURNAL_PATH, SESSION_ROLES
from ykactor.surfaces.sessions.websocket import RequestHead

UNKNOWN = "yk_" + "u" * 43
EXPIRED = "yk_" + "e" * 43


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


async def response(daemon: FakeDaemon, *headers: str, path: str = "/v1/feed") -> str:
    """All of the response to a request for a websocket, or its head if the request is accepted."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        *headers,
    ]
    async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        received = b""
        while data := await stream.receive_some():
            received += data
            if b"101 Switching" in received and b"\r\n\r\n" in received:
                break
        return received.partition(b"\r\n\r\n")[0].decode() if b"101 Switching" in received else received.decode()


def status_of(text: str) -> int:
    return int(text.split()[1])


def injected(control: AccessControl, shown: Credentials) -> Admit:
    """An admission in which all clients show these credentials, beside those of the request; returns the caller."""
    return lambda role, _, origin: control.admit(role, shown, origin)


BAD = {
    "nothing": (),
    "another scheme": ("Authorization: Basic eA==",),
    "an empty token": ("Authorization: Bearer",),
    "an unknown token": (bearer(UNKNOWN),),
    "an expired token": (bearer(EXPIRED),),
    "a token of nobody": (bearer("yk_" + "n" * 43),),
    "no token": (bearer("x"),),
    "a JWT of another key": (bearer(jwt_of("reader")[:-9] + "AAAAAAAAA"),),
    "an expired JWT": (bearer(jwt_of("reader", exp=NOW_NS // 10**9 - 60)),),
    "a JWT of nobody": (bearer(jwt_of("stranger")),),
    "an unknown token as a subprotocol": (f"Sec-WebSocket-Protocol: ykactor.v1.json, ykactor.bearer.{UNKNOWN}",),
}


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed", "/v1/unknown"])
async def test_one_answer_for_all_reasons(path: str) -> None:
    """SE-60: byte for byte the same, also where there is nothing and where there is no place left."""
    control = control_of(access(secrets={**SECRETS, "nobody": "yk_" + "n" * 43}))
    expired = control_of(access(secrets={"reader": EXPIRED}, expires_ns=NOW_NS))
    answers = set()
    for in_force in (Limits, partial(Limits, total_sessions=0)):
        for admit in (control.admit, expired.admit):
            async with running_daemon(in_force=in_force, admit=admit) as daemon:
                answers |= {await response(daemon, *headers, path=path) for headers in BAD.values()}
    (answer,) = answers
    assert status_of(answer) == 401
    assert "\r\nWWW-Authenticate: Bearer\r\n" in answer


@pytest.mark.parametrize("name", BAD)
async def test_the_log_says_why(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """SE-60, SE-10: the reason, with the address, and nothing of what was shown."""
    caplog.set_level(logging.DEBUG)
    admit = control_of(access(secrets={"reader": EXPIRED, "nobody": "yk_" + "n" * 43}, expires_ns=NOW_NS)).admit
    async with running_daemon(admit=admit) as daemon:
        await response(daemon, *BAD[name])
    (record,) = [record for record in caplog.records if record.getMessage() == "handshake_failed"]
    keys = record.__dict__["keys"]
    assert keys["status"] == 401
    assert keys["peer"].startswith("127.0.0.1:")
    assert keys["reason"]
    assert not keys["reason"].startswith("expected a valid proof of an identity")
    secrets = [header.rpartition(" ")[2].removeprefix("ykactor.bearer.") for header in BAD[name]]
    logged = "".join(repr(record.__dict__) for record in caplog.records)
    assert not [secret for secret in secrets if len(secret) > 6 and secret in logged]


@pytest.mark.parametrize("path", SESSION_ROLES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", IDENTITIES)
async def test_who_comes_in_where(name: str, way: str, path: str) -> None:
    """SE-62: by every way of proof only where the identity has the role of the path. EV-55: nobody else is told the term."""
    async with running_daemon(admit=injected(control_of(), credentials(name, way))) as daemon:
        found = await response(daemon, path=path)
    assert status_of(found) == (101 if SESSION_ROLES[path] in ROLES[name] else 403)
    assert ("\r\nykactor-term: " in found.lower()) is (SESSION_ROLES[path] in ROLES[name])
    if SESSION_ROLES[path] not in ROLES[name]:
        assert found.endswith(f"{name} does not have the role {SESSION_ROLES[path]}, which {path} needs\n")


def headers_of(secret: str) -> Iterator[tuple[str, ...]]:
    yield (bearer(secret),)
    yield (f"authorization:   bEARER   {secret}  ",)
    for subprotocols in (
        f"ykactor.bearer.{secret}",
        f"ykactor.bearer.{secret}, ykactor.v1.json",
        f"x,ykactor.v1.json,ykactor.bearer.{secret}",
    ):
        yield (f"Sec-WebSocket-Protocol: {subprotocols}",)


@pytest.mark.parametrize("form", range(5))
@pytest.mark.parametrize("secret", [SECRETS["reader"], jwt_of("reader")], ids=("token", "jwt"))
async def test_how_a_bearer_is_shown(secret: str, form: int) -> None:
    """SE-61: in the header, or as one of the subprotocols, which is never the one that is chosen."""
    headers = [*headers_of(secret)][form]
    async with running_daemon(admit=control_of().admit) as daemon:
        found = await response(daemon, *headers)
    assert status_of(found) == 101
    assert secret not in found
    assert ("Sec-WebSocket-Protocol: ykactor.v1.json" in found) is ("ykactor.v1.json" in headers[0])


@pytest.mark.parametrize("is_let_in", [True, False])
@pytest.mark.parametrize(
    "headers",
    [
        (bearer(SECRETS["reader"]), bearer(SECRETS["reader"])),
        (bearer(SECRETS["reader"]), f"Sec-WebSocket-Protocol: ykactor.bearer.{SECRETS['reader']}"),
        (f"Sec-WebSocket-Protocol: ykactor.bearer.{SECRETS['reader']}, ykactor.bearer.{SECRETS['rm']}",),
    ],
)
async def test_two_bearers(headers: tuple[str, ...], is_let_in: bool) -> None:
    """SE-61: which one is meant must not depend on an order; with and without an access file."""
    async with running_daemon(**({"admit": control_of().admit} if is_let_in else {})) as daemon:
        found = await response(daemon, *headers)
    assert status_of(found) == 400
    assert not [secret for secret in SECRETS.values() if secret in found]


@pytest.mark.parametrize("path", SESSION_ROLES)
@pytest.mark.parametrize("headers", [(), (bearer(UNKNOWN),), (f"Sec-WebSocket-Protocol: ykactor.bearer.{UNKNOWN}",)])
async def test_without_an_access_file(path: str, headers: tuple[str, ...]) -> None:
    """SE-1: everybody is let in by every path, whatever is shown; but without a journal nothing is recorded (SE-100)."""
    async with running_daemon() as daemon:
        assert status_of(await response(daemon, *headers, path=path)) == (503 if path == JOURNAL_PATH else 101)


async def test_who_is_let_in_learns_more() -> None:
    """SE-60: an unknown path, a page of another host and that there is no room are told to who is somebody."""
    async with running_daemon(in_force=lambda: Limits(total_sessions=0), admit=control_of().admit) as daemon:
        good = bearer(SECRETS["reader"])
        assert status_of(await response(daemon, good, path="/v1/unknown")) == 404
        assert status_of(await response(daemon, good, "Origin: http://elsewhere")) == 403
        assert status_of(await response(daemon, good)) == 503


def test_every_door_has_messages() -> None:
    """SE-62: the role of each path is one for which the table has entries; a replica asks for nothing."""
    assert all(any(role in by_role for by_role in TABLE.values()) for role in SESSION_ROLES.values() if role is not Role.REPLICA)


async def test_secrets_are_not_in_texts() -> None:
    """SE-10: neither a request nor a caller shows a token or a JWT when it is printed, for example in a traceback."""
    for way in ("token", "jwt"):
        shown = credentials("reader", way)
        caller = control_of().admit(Role.READER, shown, "here")
        head = RequestHead(shown.bearer.encode(), "/v1/feed", {"authorization": shown.bearer}, [], shown.bearer)
        for thing in (shown, caller, head, Caller(Role.READER, "here")):
            assert shown.bearer not in repr(thing) + str(thing)


async def test_an_identity_is_refused_before_anything_waits() -> None:
    """SE-60: whoever is let in is reviewed from then on, so a revocation during the handshake finds it."""
    control = control_of()
    caller = control.admit(Role.READER, credentials("reader", "token"), "here")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        control.replace(access(secrets={}))
        await caller.ended.wait()
        nursery.cancel_scope.cancel()
