"""``serve --tls-cert`` as it is shipped: a process, signals, exit codes."""

import signal
from contextlib import closing
from datetime import timedelta
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest
import trio
from certificates import Authority
from click.testing import CliRunner
from daemon import node, real_daemon

from ykactor.access import moments
from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused, connect, follow
from ykactor.surfaces.cli.main import main

ACCESS = 'identities: [{name: rm, roles: [rm, reader], rmIDs: [rm-1], proofs: [{certificate: "DNS:rm.example"}]}]\n'


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.write()
    return made


@pytest.fixture
def access(tmp_path: Path) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(ACCESS)
    return path


def pair(authority: Authority) -> list[str | Path]:
    return ["--tls-cert", authority.cert, "--tls-key", authority.key]


async def register(url: str, **login: object) -> None:
    async with connect(url, rm_id="rm-1", **login) as rm:
        await rm.request(node())


async def test_from_a_network(authority: Authority, access: Path) -> None:
    """SE-54, SE-33: with TLS and an access file the daemon listens where others can connect, and a certificate is who one is."""
    arguments = ["--access", access, *pair(authority), "--tls-client-ca", authority.ca]
    async with real_daemon(*arguments, ws=("--ws", "0.0.0.0:0")) as daemon:
        assert daemon.url.startswith("wss://0.0.0.0:")
        assert daemon.logged("listens_insecurely") == []
        url = daemon.url.replace("0.0.0.0", "localhost")
        await register(url, tls=authority.client("rm.example"))
        with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
            await register(url, tls=authority.client("other.example"))
        assert await daemon.stop() == 0


@pytest.mark.usefixtures("logging_restored")
def test_without_an_access_file(authority: Authority) -> None:
    """SE-54: TLS alone keeps nobody out."""
    options = ["--ws", "0.0.0.0:0", "--http", "127.0.0.1:0", *map(str, pair(authority))]
    done = CliRunner().invoke(main, ["serve", *options], prog_name="ykactor")
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith("Error: wss://0.0.0.0:")
    assert "and it has no access file: " in done.output.splitlines()[-1]


async def test_a_unix_socket_is_not_encrypted(authority: Authority, tmp_path: Path) -> None:
    """SE-30: the kernel says who is there, and nobody is in between."""
    ws = ("--ws", "127.0.0.1:0", "--ws", f"unix:{tmp_path}/s")
    async with real_daemon(*pair(authority), ws=ws) as daemon:
        encrypted, local = daemon.url.split(", ")
        await register(local)
        await register(encrypted, tls=authority.client())


async def test_a_renewed_pair(authority: Authority, tmp_path: Path) -> None:
    """SE-32: followed as it is replaced, and on SIGHUP; what is wrong changes nothing, and a session goes on."""
    trusting = authority.client()
    async with real_daemon(*pair(authority)) as daemon, connect(daemon.url, rm_id="rm-1", tls=trusting) as rm:
        new = Authority(tmp_path, "new")
        new.write()
        await daemon.wait_logged("tls_applied", 2)
        with pytest.raises(Disconnected, match="the certificate of the daemon is refused"):
            await register(daemon.url, tls=trusting)
        refused = len(daemon.logged("tls_refused"))  # while there was the new one of two
        authority.key.write_text("")
        await daemon.wait_logged("tls_refused", refused + 1)
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.wait_logged("tls_refused", refused + 2)
        async with follow(daemon.url, from_="snapshot", tls=new.client()) as events:
            await anext(events)
        await rm.request(node())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--tls-cert", "{cert}"], "found one of --tls-cert and --tls-key, expected both"),
        (["--tls-key", "{key}"], "found one of --tls-cert and --tls-key, expected both"),
        (["--tls-cert", "{cert}", "--tls-key", "{cert}"], "{cert}: found no valid private key, expected one in PEM"),
        (["--tls-cert", "{cert}", "--tls-key", "none"], "does not exist"),
        (["--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-client-ca", "{cert}"], "expected --tls-cert and --access with it"),
        (["--access", "{access}", "--tls-client-ca", "{cert}"], "expected --tls-cert and --access with it"),
    ],
)
def test_a_wrong_start(authority: Authority, access: Path, arguments: list[str], expected: str) -> None:
    """SE-31: exit code 2, and one line that says what is wrong."""
    files = {"cert": authority.cert, "key": authority.key, "access": access}
    given = [argument.format(**files) for argument in arguments]
    done = CliRunner().invoke(main, ["serve", "--ws", "127.0.0.1:0", *given], prog_name="ykactor")
    assert done.exit_code == 2
    assert expected.format(**files) in done.output.splitlines()[-1]


async def test_a_certificate_that_is_about_to_expire(authority: Authority) -> None:
    """SE-35: the audit is told, and the metrics have the moment."""
    end = moments.at(system_ns()) + timedelta(days=3)
    authority.write(not_after=end)
    async with real_daemon(*pair(authority), http="127.0.0.1:0") as daemon:
        line = await daemon.wait_logged("audited")
        text = f"the certificate expires at {end:%Y-%m-%dT%H:%M:%SZ}, in 3 days"
        assert (line["act"], line["target"], line["origin"], line["after"]) == (
            "CERTIFICATE", authority.cert.name, str(authority.cert), text,
        )  # fmt: skip
        assert daemon.logged("tls_warning")[0]["reason"].endswith(text)

        def scrape() -> bytes:
            connection = HTTPSConnection("localhost", int(daemon.http.rpartition(":")[2]), context=authority.client(), timeout=60)
            connection.request("GET", "/ws/v1/metrics")
            with closing(connection), connection.getresponse() as response:
                return response.read()

        found = await trio.to_thread.run_sync(scrape)
        (series,) = [line for line in found.decode().splitlines() if line.startswith("ykactor_tls_certificate_expiry")]
        assert float(series.split()[1]) == end.timestamp()


async def test_the_rest_api(authority: Authority, access: Path, tmp_path: Path) -> None:
    """SE-30, SE-33: it is encrypted as well, knows a certificate, and leads nowhere else; what is no TLS ends.

    A certificate of another authority is refused, and told in the audit.
    """
    arguments = ["--access", access, *pair(authority), "--tls-client-ca", authority.ca]
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon:
        assert daemon.http.startswith("https://127.0.0.1:")
        port = int(daemon.http.rpartition(":")[2])

        def ask(path: str, *names: str) -> HTTPResponse:
            connection = HTTPSConnection("localhost", port, context=authority.client(*names), timeout=60)
            connection.request("GET", path)
            with closing(connection), connection.getresponse() as response:
                response.read()
                return response

        other = Authority(tmp_path, "other").client("rm.example")
        other.load_verify_locations(authority.ca)
        connection = HTTPSConnection("localhost", port, context=other, timeout=60)
        with closing(connection), pytest.raises((OSError, HTTPException)):
            await trio.to_thread.run_sync(lambda: (connection.request("GET", "/ws/v1/partitions"), connection.getresponse()))
        refused = await daemon.wait_logged("audited")
        assert (refused["target"], refused["who"]) == ("certificate", "")
        assert (await trio.to_thread.run_sync(ask, "/ws/v1/partitions", "rm.example")).status == 200
        assert (await trio.to_thread.run_sync(ask, "/ws/v1/partitions")).status == 401
        moved = await trio.to_thread.run_sync(ask, "/WS/v1/partitions", "rm.example")
        assert (moved.status, moved.headers["Location"]) == (301, "/ws/v1/partitions")
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            while await stream.receive_some():
                pass
        assert (await daemon.wait_logged("handshake_failed", 2))["reason"] == "found no valid TLS: http request"
        assert daemon.noise == ""
