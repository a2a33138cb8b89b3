"""Connecting and proving an identity: addresses, tokens, certificates, and what is said when the client is refused."""

import logging
import socket
import ssl
import sys
from contextlib import asynccontextmanager
from functools import partial

import click
import pytest
import trio
import trustme
from click.testing import CliRunner
from daemon import node, real_daemon, run_command
from doubles import running_daemon

from ykactor.client import Disconnected, RequestRefused, connect, follow, tls_context
from ykactor.client import connection as connection_module
from ykactor.client.connection import check_url
from ykactor.client.login import Login
from ykactor.surfaces.cli import acts
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.urls import Destination

TOKEN = "yk_" + "s3cret" * 7


class Replying:
    """A server that answers each request with a fixed response, and keeps what was asked."""

    def __init__(self, status, body=""):
        self.heads = []
        self._response = f"HTTP/1.1 {status} Refused\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()

    async def handle(self, stream):
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some()
        self.heads.append(head.decode())
        await stream.send_all(self._response)


@asynccontextmanager
async def replying(status, body=""):
    """The server and its URL."""
    server = Replying(status, body)
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, server.handle, 0, host="127.0.0.1"))
        with trio.fail_after(180):
            yield server, f"ws://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def try_to_connect(url, **login):
    async with connect(url, rm_id="rm-1", **login):
        pass


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


# ---- addresses


@pytest.mark.parametrize("url", ["ws://h:1", "wss://h", "ws://[::1]:9081", "unix:/run/s", "unix:s"])
def test_addresses_of_daemons(url):
    """TCP, TLS and Unix sockets."""
    check_url(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:1", "found 'http://h:1', expected ws://HOST:PORT, wss://HOST:PORT or unix:PATH"),
        ("ws://h:0", "expected ws://HOST:PORT"),
        ("ws://h:70000", "expected ws://HOST:PORT"),
        ("unix:", "expected unix:PATH"),
        ("unix:@name", "expected unix:PATH"),
        ("unix:" + "x" * 108, "found a path of 108 bytes, expected at most 107"),
    ],
)
def test_addresses_of_nothing(url, expected):
    """SE-51: paths as of the server."""
    with pytest.raises(ValueError, match=expected):
        check_url(url)


async def test_a_missing_socket_is_no_daemon(tmp_path):
    """The error says what to start, as for a port where nothing listens, also if a killed daemon has left its file."""
    path = tmp_path / "s"
    hint = f"unix:{path}: nothing listens there, start a daemon with ykactor serve --ws unix:{path}"
    with pytest.raises(Disconnected) as lost:
        await try_to_connect(f"unix:{path}")
    assert str(lost.value) == hint
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(Disconnected) as lost:
        await try_to_connect(f"unix:{path}")
    assert str(lost.value) == hint


async def test_a_follower_waits_for_the_socket_of_a_daemon(tmp_path):
    """The file appears when the daemon listens: until then it is waited for, as for a port."""
    said = []
    path = tmp_path / "s"
    with trio.fail_after(180):
        async with trio.open_nursery() as nursery:

            async def watch():
                async with follow(f"unix:{path}", on_connection=said.append) as events:
                    await anext(events)

            nursery.start_soon(watch)
            while not said:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert said[0].startswith(f"waiting up to 5 s for a daemon: unix:{path}: nothing listens there")


# ---- tokens


async def test_a_token_is_sent_in_a_header():
    """SE-55: as ``Authorization: Bearer``, by resource managers and followers; without one there is no such header."""
    async with replying(401) as (server, url):
        for login in ({"token": TOKEN}, {}):
            with pytest.raises(RequestRefused):
                await try_to_connect(url, **login)
        with pytest.raises(RequestRefused):
            async with follow(url, token=TOKEN) as events:
                await anext(events)
    shown = [f"Authorization: Bearer {TOKEN}\r\n" in head for head in server.heads]
    assert shown == [True, False, True]
    assert "Authorization" not in server.heads[1]


async def test_a_token_is_not_sent_for_others_to_read(monkeypatch):
    """SE-56: over ``ws://`` it goes to this machine only, unless ``insecure`` allows it: where the connection led to counts."""
    monkeypatch.setattr(connection_module, "is_loopback", lambda address: address != "127.0.0.1")
    async with replying(401) as (server, url):
        with pytest.raises(Disconnected, match="the token is not sent without TLS to another machine: use wss://"):
            await try_to_connect(url, token=TOKEN)
        assert server.heads == []
        for login in ({"token": TOKEN, "insecure": True}, {}):
            with pytest.raises(RequestRefused):
                await try_to_connect(url, **login)


@pytest.mark.parametrize("token", ["two words", "line\r\nX-Header: y", "ä", "x" * 8193])
def test_what_can_be_no_token(token):
    """SE-55: nothing of it is repeated, nor does it get into a header."""
    with pytest.raises(ValueError, match="found something that is no token") as refused:
        Login(token)
    assert token not in str(refused.value)


async def test_a_token_is_never_shown(caplog):
    """SE-57: not in what is printed of a login, nor in an error, nor in a log, that of the websocket library included."""
    caplog.set_level(logging.DEBUG)
    assert TOKEN not in repr(Login(TOKEN))
    async with replying(503, "busy") as (_, url):
        with pytest.raises(Disconnected) as lost:
            await try_to_connect(url, token=TOKEN)
    assert TOKEN not in f"{lost.value!r}{lost.value.__cause__!r}"
    assert caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("content", "code"), [(b"", 1), (b"\n", 1), (b"two words", 1), (b"\xff", 1), (b"x" * 9000, 1), (None, 2)]
)
def test_a_file_without_a_token(tmp_path, content, code):
    """SE-55: one line that names the file and shows nothing of it."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    done = CliRunner().invoke(main, ["rm", "release", "rm-1", "--token-file", str(path)], prog_name="ykactor")
    assert done.exit_code == (1 if content is not None else 2)
    is_there = "found no token, expected one line as ykactor token create prints it"
    assert (is_there if content is not None else "does not exist") in done.output.splitlines()[-1]


def test_no_option_takes_a_token():
    """SE-55: arguments can be seen by every user of the machine."""
    names = {name for option in acts.release_rm.params for name in option.opts}
    assert {"--token-file", "--url", "--insecure"} <= names
    assert "--token" not in names


async def test_a_command_finds_the_daemon_and_the_token_in_the_environment(token_file):
    """SE-55, SE-58: ``YKACTOR_URL`` and ``YKACTOR_TOKEN_FILE`` are the defaults; a refused token ends with exit code 1."""
    async with replying(401, "who are you") as (server, url):
        environment = {"YKACTOR_URL": url, "YKACTOR_TOKEN_FILE": str(token_file)}
        for command in (["rm", "release", "rm-1"], ["story", "n1"]):
            _, errors = await run_command(*command, expect=1, environment=environment)
            assert errors.startswith(f"Error: NOT_AUTHENTICATED: {url}: who are you; the token in {token_file} is unknown, ")
    assert all(f"Bearer {TOKEN}" in head for head in server.heads)
    assert len(server.heads) == 2


def test_a_command_without_a_token_says_how_to_get_one():
    """SE-58: what to give, and where it comes from; another error needs no token."""
    daemon = Destination("ws://127.0.0.1:1")
    unknown = daemon.problem(RequestRefused("NOT_AUTHENTICATED", "who are you")).message
    assert unknown == (
        "NOT_AUTHENTICATED: who are you; give a token with --token-file FILE or YKACTOR_TOKEN_FILE: "
        "ykactor token create IDENTITY --access FILE makes one where the daemon runs"
    )
    assert daemon.problem(RequestRefused("NOT_PERMITTED", "no")).message == "NOT_PERMITTED: no"


def test_a_refusal_in_nested_tasks_is_one_error():
    """The error of a command is the refusal, however deep in nurseries the question was asked."""

    async def nested(depth):
        if not depth:
            raise RequestRefused("NOT_PERMITTED", "no")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nested, depth - 1)

    with pytest.raises(click.ClickException, match=r"^NOT_PERMITTED: no$"):
        Destination("ws://127.0.0.1:1").run(nested, 3)


async def test_a_token_may_come_from_a_pipe():
    """SE-55: ``--token-file <(pass show ykactor)``: it is read once, also by a command that connects twice."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
        story = [sys.executable, "-m", "ykactor", "story", "n1", "--url", daemon.url]
        script = f'exec "$@" --token-file <(echo {TOKEN})'
        with trio.fail_after(180):
            done = await trio.run_process(["bash", "-c", script, "bash", *story], capture_stdout=True)
        assert b"now: node n1" in done.stdout


# ---- refusals


@pytest.mark.parametrize(("status", "code"), [(401, "NOT_AUTHENTICATED"), (403, "NOT_PERMITTED")])
async def test_a_refused_connection(status, code):
    """SE-58: the code is for programs, the sentence of the daemon for people."""
    async with replying(status, "because\n") as (_, url):
        with pytest.raises(RequestRefused) as refused:
            await try_to_connect(url)
    assert (refused.value.code, str(refused.value)) == (code, f"{code}: {url}: because")


async def test_a_follower_that_is_let_in_no_longer_ends():
    """SE-58: its token was revoked; to try again would change nothing, and fill the log of the daemon."""
    is_revoked = trio.Event()

    async def handle(port, stream):
        if is_revoked.is_set():
            await Replying(401, "no").handle(stream)
            return
        async with trio.open_nursery() as relaying:
            relaying.start_soon(relay, port, stream)
            await is_revoked.wait()
            relaying.cancel_scope.cancel()

    async with running_daemon() as daemon, trio.open_nursery() as nursery:
        port = int(daemon.url.rpartition(":")[2])
        (listener,) = await nursery.start(partial(trio.serve_tcp, partial(handle, port), 0, host="127.0.0.1"))
        async with follow(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}", from_="snapshot") as events:
            await anext(events)
            is_revoked.set()
            with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
                await anext(events)
        nursery.cancel_scope.cancel()


# ---- TLS


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@asynccontextmanager
async def behind_tls(authority, name="localhost", *, wants_certificate=False):
    """A daemon that is reached through TLS; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    async with running_daemon() as daemon, trio.open_nursery() as nursery:
        port = int(daemon.url.rpartition(":")[2])
        serve = partial(trio.serve_ssl_over_tcp, partial(relay, port), 0, context, host="127.0.0.1", https_compatible=True)
        (listener,) = await nursery.start(serve)
        yield listener.transport_listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def relay(port, stream):
    """Pass on what comes, both ways; a client that gives up is no failure."""
    try:
        async with await trio.open_tcp_stream("127.0.0.1", port) as daemon, trio.open_nursery() as nursery:
            nursery.start_soon(copy, stream, daemon)
            await copy(daemon, stream)
            nursery.cancel_scope.cancel()
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def copy(source, target):
    async for chunk in source:
        await target.send_all(chunk)


@pytest.fixture
def trusted(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


async def test_a_daemon_with_tls(authority, trusted):
    """The authority of the daemon is named; a token may go to any machine then."""
    async with behind_tls(authority) as port:
        async with connect(f"wss://localhost:{port}", rm_id="rm-1", tls=tls_context(trusted), token=TOKEN) as rm:
            await rm.request(node())
        await run_command("rm", "release", "rm-1", "--url", f"wss://localhost:{port}", "--tls-ca", trusted)


async def test_a_daemon_that_is_not_trusted(authority, trusted):
    """SE-59: neither of an unknown authority, nor under another name; the token is not sent."""
    async with behind_tls(authority, "other.example") as port:
        with pytest.raises(
            Disconnected, match=r"is refused: unable to get local issuer certificate; --tls-ca names the authorities to trust$"
        ):
            await try_to_connect(f"wss://localhost:{port}", token=TOKEN)
        with pytest.raises(Disconnected, match="the certificate of the daemon is refused: Hostname mismatch"):
            await try_to_connect(f"wss://localhost:{port}", tls=tls_context(trusted))


async def test_a_daemon_without_tls(authority):
    """Whoever connects with ``wss://`` to a listener without TLS is told so at once."""
    async with running_daemon() as daemon:
        with pytest.raises(Disconnected, match=r"^wss://localhost:\d+: there is no TLS: "):
            await try_to_connect(daemon.url.replace("ws://127.0.0.1", "wss://localhost"))


async def test_a_daemon_with_tls_only(authority):
    """Whoever connects with ``ws://`` to a listener with TLS is told where it is."""
    async with behind_tls(authority) as port:
        with pytest.raises(Disconnected, match=r"^ws://localhost:\d+: .*; a daemon with TLS is at wss://$"):
            await try_to_connect(f"ws://localhost:{port}")


async def test_another_server():
    """A refusal without a reason is not by a daemon's listener of websockets."""
    async with replying(403) as (_, url):
        with pytest.raises(
            RequestRefused,
            match=r"^NOT_PERMITTED: ws://.*: the server replied 403 without a reason: is this the address of serve --ws",
        ):
            await try_to_connect(url)


async def test_a_client_certificate(authority, trusted, tmp_path):
    """SE-59: certificate and key in one file or in two; without one the connection ends in words."""
    issued = authority.issue_cert("ci@corp.example")
    both, key = tmp_path / "both.pem", tmp_path / "key.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(both)
    issued.private_key_pem.write_to_path(key)
    async with behind_tls(authority, wants_certificate=True) as port:
        url = f"wss://localhost:{port}"
        await try_to_connect(url, tls=tls_context(trusted, both))
        arguments = ["--url", url, "--tls-ca", trusted, "--tls-cert", both, "--tls-key", key]
        await run_command("rm", "release", "rm-1", *arguments)
        with pytest.raises(Disconnected, match="the connection was closed during the handshake"):
            await try_to_connect(url, tls=tls_context(trusted))


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--tls-ca", "{none}"], 2, "does not exist"),
        (["--tls-ca", "{text}"], 1, "{text}: found no certificate, expected those of authorities in PEM"),
        (["--tls-cert", "{text}"], 1, "{text}: found no certificate or not its key, expected both in PEM"),
        (["--tls-key", "{text}"], 2, "found --tls-key without --tls-cert, expected both"),
    ],
)
def test_files_that_are_no_certificates(tmp_path, arguments, code, expected):
    """One line with the file."""
    files = {"none": str(tmp_path / "none"), "text": str(tmp_path / "text")}
    (tmp_path / "text").write_text("no certificate")
    command = ["rm", "release", "rm-1", "--url", "wss://localhost:1", *(argument.format(**files) for argument in arguments)]
    done = CliRunner().invoke(main, command, prog_name="ykactor")
    assert done.exit_code == code
    assert expected.format(**files) in done.output.splitlines()[-1]


@pytest.mark.parametrize("option", ["--tls-ca", "--tls-cert"])
@pytest.mark.parametrize("url", ["ws://localhost:1", "unix:/none"])
def test_files_of_tls_without_tls(tmp_path, option, url):
    """SE-59: whoever names them believes that the connection is encrypted."""
    (tmp_path / "file").touch()
    command = ["rm", "release", "rm-1", "--url", url, option, str(tmp_path / "file")]
    done = CliRunner().invoke(main, command, prog_name="ykactor")
    assert done.exit_code == 2
    assert f"found {option} with {url}, expected wss://: without TLS it has no effect" in done.output


@pytest.mark.parametrize("url", ["ws://localhost:1", "unix:/none"])
async def test_settings_of_tls_without_tls(url):
    """SE-59: of the client too."""
    with pytest.raises(ValueError, match=f"found tls with {url}, expected wss://"):
        await try_to_connect(url, tls=tls_context())
