"""A real daemon with an access file and a journal: what it decides can be replayed, and no secret is anywhere."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from callers import SECRETS, jwt_of, keys, tokens_of
from daemon import run_command
from daemonhere import serving
from shown import Shown
from trio_websocket import ConnectionClosed, HandshakeError

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import open_connection
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli.serve import kept_state, make_daemon
from ykactor.surfaces.cli.state_options import Keeping
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.access_file import AccessFile
from ykactor.wire import queuefile

ACCESS = """\
identities:
  - {name: rm, roles: [rm], rmIDs: [rm-1], users: [alice], groups: [dev], proofs: [{jwt: {sub: rm}}]}
  - {name: reader, roles: [reader], proofs: [{jwt: {sub: reader}}]}
jwt: {jwks: keys.json, issuer: https://issuer, audience: ykactor}
"""
#: JWTs that are valid by the clock of this machine.
JWTS = {name: jwt_of(name, exp=system_ns() // 10**9 + 600) for name in ("rm", "reader")}
WRONG = "yk_" + "w" * 43


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[Daemon, str]]:
    settings = Settings(access_path=directory / "access.yaml")
    with kept_state(directory / "state", settings, Keeping("off")) as state:
        daemon = make_daemon(queuefile.load(""), settings, state, access=AccessFile(directory / "access.yaml"))
        async with serving(daemon) as url:
            yield daemon, url


async def talk(url: str, path: str, header: tuple[bytes, bytes], *messages: dict[str, object]) -> list[bytes]:
    """Send messages; what came back within some time, and how the connection ended."""
    received: list[bytes] = []
    try:
        async with open_connection(url, path, login=Shown(others=(header,))) as connection:
            for message in messages:
                await connection.send_message(msgspec.json.encode(message).decode())
            with trio.move_on_after(0.3):
                while True:
                    received.append(repr(await connection.get_message()).encode())
    except (ConnectionClosed, Disconnected, RequestRefused, HandshakeError) as error:
        received.append(repr((error, error.__cause__)).encode())
    return received


def journal_of(state: Path) -> bytes:
    """All that the journal holds, unpacked."""
    with Reader.open(state) as reader:
        rows = [part for row in reader.rows() for part in (*row.turns(), *row.messages())]
        return b"".join([*rows, *(key + data for key, data in reader.records())])


async def test_nothing_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SE-10, SE-65: no log, message, event or file has a token or a JWT, and every turn can be replayed."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "access.yaml").write_text(ACCESS)
    (tmp_path / "keys.json").write_bytes(keys())
    (tmp_path / "tokens.json").write_bytes(tokens_of({name: SECRETS[name] for name in ("rm", "reader")}))
    new = [{"applicationID": f"app-{user}", "ugi": {"user": user}, "tags": {"namespace": "x"}} for user in ("alice", "eve", "rm")]
    received = []
    async with running(tmp_path) as (daemon, url):
        # First: the log has few lines about refused connections in a second.
        received += await talk(url, "/v1/feed", (b"Authorization", f"Bearer {WRONG}".encode()))
        for secrets in (SECRETS, JWTS):
            for name in ("rm", "reader"):
                header = (b"Authorization", b"Bearer " + secrets[name].encode())
                path = "/v1/rm" if name == "rm" else "/v1/feed"
                requests = {
                    "rm": [
                        {"type": "RegisterResourceManagerRequest", "id": "1", "rmID": "rm-1"},
                        {"type": "ApplicationRequest", "id": "2", "new": new},
                        {"type": "UpdateConfigurationRequest", "id": "3", "config": "x"},
                    ],
                    "reader": [{"type": "Subscribe", "from": 0}, {"type": "Subscribe", "from": "snapshot"}, {"type": "x"}],
                }
                received += await talk(url, path, header, *requests[name])
                received += await talk(url, "/v1/none", header)
        (core,) = [actor.core for actor in daemon._partitions.actors.values()]
        applications = core.registry.applications
    everything = b"".join([*received, *(repr(record.__dict__).encode() for record in caplog.records)])
    everything += journal_of(tmp_path / "state")
    everything += b"".join(file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())
    assert b"app-alice" in everything
    assert b"rm may not submit for user 'eve'" in everything
    assert b"'status': 401" in everything
    assert [secret for secret in (*SECRETS.values(), *JWTS.values(), WRONG) if secret.encode() in everything] == []
    assert list(applications) == ["app-alice"]
    output, _ = await run_command("replay", tmp_path / "state")
    assert "as recorded" in output
