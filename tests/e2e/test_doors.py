"""Listeners of the daemon, and who gets in by which: real sockets, files and users."""

import os
import pwd
import shutil
import socket
import stat
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from certificates import Authority
from click.testing import CliRunner
from daemon import node, real_daemon, status_of

from ykactor.access.model import ANYBODY, Role
from ykactor.access.view import view_of
from ykactor.client import RequestRefused, connect, follow, operate
from ykactor.surfaces.cli import serve as serve_module
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.net import doors as doors_module
from ykactor.surfaces.net.doors import (
    Door,
    DoorError,
    DoorKind,
    DoorSettings,
    Origin,
    RefusedDoorError,
    TcpAddress,
    UnixAddress,
    open_doors,
)
from ykactor.wire.sockets import is_loopback

LOOPBACK = TcpAddress("127.0.0.1", 0)
EVERYWHERE = TcpAddress("0.0.0.0", 0)
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def directory():
    """A directory that everybody may enter, with a short name."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def tls(tmp_path):
    return Authority(tmp_path).files()


def unix(path, **settings):
    return DoorSettings((UnixAddress(str(path)),), **settings)


async def refusal(settings, kind=RefusedDoorError):
    """The reason for which nothing is opened."""
    with pytest.raises(kind) as refused:
        async with open_doors(settings):
            pass
    assert type(refused.value) is kind
    return str(refused.value)


# ---- which door


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"])
def test_addresses_of_this_machine_alone(address):
    """SE-52: all of 127.0.0.0/8, also written as IPv6."""
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "::ffff:10.0.0.1", "fe80::1%eth0", "128.0.0.1"])
def test_addresses_that_others_reach(address):
    """SE-52: everything else, above all the addresses that stand for all of a machine's."""
    assert not is_loopback(address)


async def test_every_address_is_served(directory):
    """SE-50: TCP and Unix sockets side by side, each with what clients connect to."""
    path = directory / "ws.sock"
    async with open_doors(DoorSettings((LOOPBACK, UnixAddress(str(path))))) as (tcp, local):
        assert (tcp.kind, local.kind) == (DoorKind.LOOPBACK, DoorKind.UNIX)
        assert tcp.url == f"ws://127.0.0.1:{tcp.listener.socket.getsockname()[1]}"
        assert local.url == f"unix:{path}"


async def test_a_connection_says_where_it_comes_from(directory):
    """The address and the port, or the path, with the user as the kernel knows it."""
    me = os.geteuid()
    async with open_doors(DoorSettings((LOOPBACK, UnixAddress(str(directory / "s"))))) as (tcp, local):
        async with await trio.open_tcp_stream("127.0.0.1", tcp.listener.socket.getsockname()[1]) as client:
            async with await tcp.listener.accept() as stream:
                assert tcp.origin(stream) == Origin(f"127.0.0.1:{client.socket.getsockname()[1]}", me, is_here=True)
        async with await trio.open_unix_socket(directory / "s"), await local.listener.accept() as stream:
            assert local.origin(stream) == Origin(f"unix uid {me}", me, is_here=True)


# ---- who gets in without an access file


@pytest.mark.parametrize("kind", [DoorKind.UNIX, DoorKind.LOOPBACK])
@pytest.mark.parametrize(
    ("uid", "daemon", "acts"),
    [(0, 500, True), (500, 500, True), (501, 500, False), (None, 500, False), (65534, 65534, False)],
)
def test_users_of_this_machine(monkeypatch, kind, uid, daemon, acts):
    """SE-52, SE-53: root and the daemon's own user do everything, others read; 65534 and who is unknown may be anybody."""
    monkeypatch.setattr(os, "geteuid", lambda: daemon)
    found = Door(None, kind, "unix:/s").identity(Origin("", uid, is_here=True))
    assert found.roles == (frozenset(Role) if acts else {Role.READER, Role.METRICS})
    assert (found is ANYBODY) == acts
    assert view_of(found) is None


def test_users_of_other_machines():
    """SE-52, SE-54: one from elsewhere on loopback is nobody; with ``--insecure`` all are let in."""
    assert Door(None, DoorKind.LOOPBACK, "").identity(Origin("10.0.0.7:5000", None, "it is not found")) is None
    assert Door(None, DoorKind.NETWORK, "").identity(Origin("10.0.0.7:5000")) is ANYBODY


@contextmanager
def somebody_else(uid=12345):
    """Within this block sockets are connected as another user."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@ROOT_ONLY
@pytest.mark.parametrize("url", ["unix", "127.0.0.1", "[::1]"])
async def test_another_user_only_reads(directory, url):
    """SE-52, SE-53: by whichever door of this machine; the file of the socket lets everybody connect."""
    ws = f"unix:{directory}/ws.sock" if url == "unix" else f"{url}:0"
    async with real_daemon("--ws-mode", "0666", ws=("--ws", ws), http="127.0.0.1:0") as daemon:
        await register(daemon.url)
        for opened, path in ((connect(daemon.url, rm_id="rm-1"), "/v1/rm"), (operate(daemon.url), "/v1/operator")):
            with somebody_else(), pytest.raises(RequestRefused) as refused:
                async with opened:
                    pass
            expected = "without an access file only root and the user of the daemon may act, found user 12345"
            assert (refused.value.code, expected in str(refused.value)) == ("NOT_PERMITTED", True), path
        with somebody_else():
            async with follow(daemon.url, from_="snapshot") as events:
                await anext(events)
            for path in ("/ws/v1/partitions", "/ws/v1/metrics", "/ws/v1/config"):
                assert await status_of(daemon.http, path) == 200
        assert await daemon.stop() == 0
        await daemon.wait_logged("daemon_stopped")  # the log comes later than the answers
        refusals = [line for line in daemon.logged("audited") if line["who"] == "user 12345"]
        assert [(line["act"], line["target"]) for line in refusals] == [("CONNECT", "/v1/rm")]


ACCESS = """
identities:
  - {name: ops, roles: [reader], proofs: [{user: root}]}
  - {name: ci, roles: [rm], rmIDs: [rm-1], proofs: [{user: daemon}]}
"""


@ROOT_ONLY
async def test_an_access_file_decides_who_comes_through_a_unix_socket(directory, tmp_path):
    """SE-53, SE-6: users are identities then, and root is nobody special; who is no identity is not let in."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    ws = ("--ws", f"unix:{directory}/s", "--ws", "127.0.0.1:0")
    async with real_daemon("--ws-mode", "0666", "--access", access, ws=ws) as daemon:
        local, tcp = daemon.url.split(", ")
        async with follow(local, from_="snapshot") as events:
            await anext(events)
        with pytest.raises(RequestRefused, match="NOT_PERMITTED"):
            await register(local)
        with somebody_else(pwd.getpwnam("daemon").pw_uid):
            await register(local)
        for url in (local, tcp):
            with somebody_else(), pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
                await register(url)


async def register(url):
    async with connect(url, rm_id="rm-1") as rm:
        await rm.request(node())


async def test_other_machines_need_permission():
    """SE-54: a listener that others reach is refused without TLS or an access file, in one line that says what to do."""
    what = "other machines can reach it, and it has no TLS and no access file"
    message = await refusal(DoorSettings((LOOPBACK, EVERYWHERE)))
    assert message.startswith("ws://0.0.0.0:")
    instead = "or listen on 127.0.0.1 or unix:PATH, or allow it with serve --insecure"
    assert message.endswith(f": {what}: use serve with --tls-cert and --tls-key and --access, {instead}")
    assert "and it has no TLS: use serve with --tls-cert and --tls-key, or " in await refusal(
        DoorSettings((EVERYWHERE,), has_access=True)
    )


async def test_tls_and_an_access_file_are_enough(caplog, tls):
    """SE-54: then nothing has to be permitted, and nothing is warned of; one of them is not enough."""
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(socket.create_server(("0.0.0.0", 0))))
    async with listener:
        encrypted = Door.of(listener, tls=tls)
        assert encrypted.url.startswith("wss://0.0.0.0:")
        doors_module._check([encrypted], DoorSettings((), has_access=True))
        assert not caplog.records
        with pytest.raises(RefusedDoorError, match="and it has no access file: "):
            doors_module._check([encrypted], DoorSettings(()))


async def test_insecure_says_so_at_each_start():
    """SE-54: ``--insecure`` allows it, and the log has what that means; loopback gets no warning."""
    ws = ("--ws", "0.0.0.0:0", "--ws", "127.0.0.1:0")
    async with real_daemon("--insecure", ws=ws) as daemon:
        (warning,) = daemon.logged("listens_insecurely")
        assert warning["reason"] == "other machines can reach it, and it has no TLS and no access file"
        assert daemon.url.startswith(warning["address"] + ", ws://127.0.0.1:")


@pytest.mark.usefixtures("logging_restored")
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_refused_start_is_a_wrong_command_line(tmp_path, command):
    """SE-54: exit code 2, which systemd does not try again, and one line."""
    options = ["--ws", "0.0.0.0:0", "--http", "127.0.0.1:0", "--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(main, [command, *options], prog_name="ykactor")
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert line.startswith("Error: ws://0.0.0.0:")


# ---- the file of a Unix socket


async def test_the_file_has_its_mode_and_leaves_with_the_daemon(directory):
    """SE-51: mode 0660 or the one that is wanted; nothing is left at the end."""
    path = directory / "ws.sock"
    async with open_doors(unix(path)):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o660
        assert [entry.name for entry in directory.iterdir()] == ["ws.sock"]
    assert list(directory.iterdir()) == []
    async with open_doors(unix(path, mode=0o600, group=os.getegid())):
        assert (stat.S_IMODE(path.lstat().st_mode), path.lstat().st_gid) == (0o600, os.getegid())


async def test_nobody_connects_before_the_file_is_as_it_should_be(directory, monkeypatch):
    """SE-51: while owner and mode are set, the socket has another name, and does not listen."""
    seen = []

    def chmod(name, mode, *, dir_fd):
        with socket.socket(socket.AF_UNIX) as early:
            seen.append(((directory / "s").exists(), early.connect_ex(str(directory / name)) != 0))

    monkeypatch.setattr(os, "chmod", chmod)
    async with open_doors(unix(directory / "s")):
        assert seen == [(False, True)]


@ROOT_ONLY
async def test_the_file_has_its_group(directory):
    """SE-51: whose members may connect, once the access file lets them in."""
    async with open_doors(unix(directory / "s", group=4242)):
        assert (directory / "s").lstat().st_gid == 4242


async def test_the_file_of_a_killed_daemon_is_taken_over(directory):
    """SE-51: nobody listens there, and it is ours."""
    path = directory / "s"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.listen()
    dead.close()
    async with open_doors(unix(path)) as (door,), await trio.open_unix_socket(path), await door.listener.accept():
        pass


@pytest.mark.parametrize("backlog", [0, 8])
async def test_a_daemon_that_lives_keeps_its_socket(directory, backlog):
    """SE-51: also one that is too busy to take connections. Another start may find it gone, so this is no refusal for good."""
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as alive, socket.socket(socket.AF_UNIX) as waiting:
        alive.bind(str(path))
        alive.listen(backlog)
        waiting.connect(str(path))
        expected = f"unix:{path}: a daemon listens there already: choose another path with --ws unix:PATH"
        assert await refusal(unix(path), DoorError) == expected
        assert path.is_socket()


async def test_nothing_else_is_taken_over(directory):
    """SE-51: no file, and no link to a socket."""
    path = directory / "s"
    for make in (path.touch, lambda: path.symlink_to("nowhere"), path.mkdir):
        make()
        expected = "found something that is no socket, expected nothing or the socket of a daemon that has ended"
        assert await refusal(unix(path)) == f"unix:{path}: {expected}"
        path.rmdir() if path.is_dir() else path.unlink()


@ROOT_ONLY
async def test_the_socket_of_another_user_is_not_taken_over(directory):
    """SE-51: even if nobody listens there."""
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    os.chown(path, 12345, -1)
    assert "found a socket of another user (uid 12345)" in await refusal(unix(path))


async def test_a_missing_directory_is_said(directory):
    """A missing directory is not made, because its owner is not known."""
    expected = "the socket cannot be made: No such file or directory"
    assert await refusal(unix(directory / "none" / "s")) == f"unix:{directory}/none/s: {expected}"


async def test_a_file_that_is_not_ours_any_more_stays(directory):
    """SE-51: another daemon has taken the name meanwhile."""
    path = directory / "s"
    async with open_doors(unix(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.is_socket()


async def test_a_path_may_be_as_long_as_the_kernel_allows(directory):
    """SE-51: 107 bytes, although the temporary name is longer."""
    path = directory / ("x" * (106 - len(str(directory))))
    assert len(str(path)) == 107
    async with open_doors(unix(path)) as (door,), await trio.open_unix_socket(path), await door.listener.accept():
        pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("unix:@abstract", "found 'unix:@abstract', expected unix:PATH with the path of a file"),
        ("unix:", "found 'unix:', expected unix:PATH"),
        ("unix:/" + "x" * 107, "found a path of 108 bytes, expected at most 107 for a Unix socket"),
        ("unix:/" + "ä" * 54, "found a path of 109 bytes, expected at most 107"),
    ],
)
def test_paths_that_no_socket_can_have(value, expected):
    """SE-51: nor an abstract name, which has no owner and no mode."""
    done = CliRunner().invoke(serve_module.command, ["--ws", value])
    assert done.exit_code == 2
    assert expected in done.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--ws", "nowhere"], "found 'nowhere', expected HOST:PORT such as 127.0.0.1:9081, or unix:PATH\n"),
        (["--http", "nowhere"], "found 'nowhere', expected HOST:PORT such as 127.0.0.1:9081, or unix:PATH, or none\n"),
        (["--ws-mode", "rw"], "found 'rw', expected octal digits up to 0777 such as 0660"),
        (["--ws-mode", "1777"], "found '1777', expected octal digits up to 0777"),
        (["--ws-mode", "-1"], "found '-1', expected octal digits"),
        (["--ws-group", "no such group"], "found 'no such group', expected the name of a group of this machine"),
        (["--access", "/none"], "'/none' does not exist"),
    ],
)
def test_wrong_options(arguments, expected):
    """Each is found at the start."""
    done = CliRunner().invoke(serve_module.command, arguments)
    assert done.exit_code == 2
    assert expected in done.output


# ---- sockets of systemd


@pytest.fixture
def passed(monkeypatch):
    """Sockets that systemd passes, with their names."""
    sockets = []
    monkeypatch.setattr(doors_module, "listen_fds", lambda: sockets)
    return sockets


async def test_all_sockets_of_systemd_are_served(passed, directory):
    """SE-50: those that are named ws, instead of ``--ws``; the file of a Unix socket stays, systemd listens on it."""
    passed += [("ws", socket.create_server(("127.0.0.1", 0))), ("ws", socket.socket(socket.AF_UNIX))]
    passed[1][1].bind(str(directory / "s"))
    passed[1][1].listen()
    async with open_doors(unix(directory / "ignored")) as (tcp, local):
        assert (tcp.kind, local.url) == (DoorKind.LOOPBACK, f"unix:{directory}/s")
        assert not (directory / "ignored").exists()
    assert (directory / "s").is_socket()


@pytest.mark.parametrize("name", ["ykactor.socket", "unknown", "WS"])
async def test_a_socket_of_systemd_with_another_name(passed, name):
    """SE-50: nobody would serve it, and clients would wait for ever; a unit without FileDescriptorName has its own name."""
    passed += [("http", socket.create_server(("127.0.0.1", 0))), (name, socket.create_server(("127.0.0.1", 0)))]
    assert await refusal(DoorSettings((LOOPBACK,))) == f"systemd passes a socket {name}, expected FileDescriptorName=ws or http"
    assert passed[1][1].fileno() == -1


async def test_an_abstract_socket_of_systemd_is_served(passed):
    """SE-50: whoever has set it up knows its name; users are told apart as on any Unix socket (SE-53)."""
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0ykactor-test-doors")
    abstract.listen()
    passed.append(("ws", abstract))
    async with open_doors(DoorSettings(())) as (door,):
        assert (door.kind, door.url) == (DoorKind.UNIX, "unix:@ykactor-test-doors")


async def test_sockets_of_systemd_need_permission_too(passed):
    """SE-54: what counts is the address that a socket is bound to, whoever has bound it."""
    passed.append(("ws", socket.create_server(("0.0.0.0", 0))))
    assert "other machines can reach it" in await refusal(DoorSettings((LOOPBACK,)))


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
async def test_a_socket_that_does_not_listen_is_refused(passed, kind):
    """A socket of another kind is refused, such as one of ListenDatagram=, which looks nearly the same in the unit."""
    passed.append(("ws", socket.socket(socket.AF_UNIX, kind)))
    expected = "systemd passes another kind of socket ws, expected ListenStream= of TCP or Unix"
    assert await refusal(DoorSettings(())) == expected


# ---- the daemon


async def test_a_daemon_on_a_unix_socket(directory):
    """A resource manager and a follower come through the file, which is gone when the daemon has ended."""
    path = directory / "ws.sock"
    async with real_daemon(ws=("--ws", f"unix:{path}")) as daemon:
        assert daemon.url == f"unix:{path}"
        async with connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url, from_="snapshot") as events:
            await rm.request(node())
            await anext(events)
        assert await daemon.stop() == 0
    assert not path.exists()


ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "ws"}
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_systemd_hands_over_a_unix_socket(directory):
    """The URL is the path that systemd has bound; the file stays for the next start."""
    path = directory / "ws.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        wrapper = [sys.executable, "-c", ACTIVATE, str(listening.fileno())]
        async with real_daemon(wrapper=wrapper, pass_fds=[listening.fileno(), 3]) as daemon:
            assert daemon.url == f"unix:{path}"
            assert (await daemon.state())["nodes"] == {}
            assert await daemon.stop() == 0
    assert path.is_socket()
