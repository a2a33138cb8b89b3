"""The shipped systemd units, checked by systemd's own offline tools."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from daemon import real_daemon, status_of

from ykactor.client import RequestRefused, connect, follow, operate
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.si import messages as si

UNITS = Path(__file__).parents[2] / "systemd"
SERVICES = ("ykactor.service", "ykactor-local.service")
SOCKETS = ("ykactor.socket", "ykactor-http.socket")
#: Highest tolerated exposure in tenths, 0 (locked up) to 100. Ours is 13, nearly all of it for listening on the network.
EXPOSURE_MAX = 14

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (package systemd)")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A copy of the units whose program exists on this machine."""
    program = tmp_path / "ykactor"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for unit in (*SERVICES, *SOCKETS):
        text = (UNITS / unit).read_text()
        (tmp_path / unit).write_text(text.replace("ExecStart=/usr/bin/ykactor", f"ExecStart={program}"))
    return tmp_path


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, check=False)


@needs_systemd
def test_units_verify(units: Path) -> None:
    """The units load without an error or a warning."""
    done = analyze("verify", "--man=no", *(units / unit for unit in (*SERVICES, *SOCKETS)))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_service_is_locked_up(units: Path) -> None:
    """The service's exposure stays below the bound: losing a line of hardening is noticed."""
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", units / "ykactor.service")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_refusal_is_not_tried_again() -> None:
    """A start that was refused is refused by the next one too; an error of the daemon itself is worth another start."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNITS / "ykactor.service")
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == [str(exit_codes.USAGE)]


def test_what_may_come_is_waited_for() -> None:
    """Restarts alone never reach the limit of starts, after which systemd would give up."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNITS / "ykactor.service")
    limit, between_s = unit["Unit"], float(unit["Service"]["RestartSec"])
    assert int(limit["StartLimitBurst"]) * between_s > float(limit["StartLimitIntervalSec"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is an identity of the sample, and can be somebody else")
async def test_an_installation_is_open_to_no_local_account(tmp_path: Path) -> None:
    """SE-1: with the options of the unit and the sample access file, only root is let in, and only by the Unix socket."""
    (start,) = [line for line in (UNITS / "ykactor.service").read_text().splitlines() if line.startswith("ExecStart=")]
    for name in ("queues.yaml", "access.yaml"):
        shutil.copy(UNITS.parent / "config" / name, tmp_path)
    _, serve, *options = start.replace("/etc/ykactor", str(tmp_path)).replace("%S", str(tmp_path)).split()
    assert serve == "serve"
    sockets = ("--ws", f"unix:{tmp_path}/ws.sock", "--ws", "127.0.0.1:0")
    async with real_daemon(*options, ws=sockets, http="127.0.0.1:0") as daemon:
        local, tcp = daemon.url.split(", ")
        async with operate(local) as operator:
            await operator.request(si.ReloadConfiguration())
        async with follow(local, from_="snapshot") as events:
            await anext(events)
        for opened in (connect(tcp, rm_id="rm-1"), operate(tcp), follow(tcp)):
            with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
                async with opened as session:
                    await anext(session)
        for path in ("/ws/v1/partitions", "/ws/v1/metrics", "/ws/v1/config", "/debug/stack"):
            assert await status_of(daemon.http, path) == 401


@pytest.fixture
def hiding_proc() -> tuple[str, ...]:
    """A command that runs another one with what the unit shows of /proc."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNITS / "ykactor.service")
    mount = f"mount -t proc -o subset={unit['Service']['ProcSubset']} proc /proc"
    wrapper = ("unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh")
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a user who may mount /proc")
    return wrapper


@pytest.mark.parametrize("durability", ["full", "normal", "off"])
async def test_it_starts_with_what_it_sees_of_proc(tmp_path: Path, hiding_proc: tuple[str, ...], durability: str) -> None:
    """DU-3: which boot it is is hidden; with the durability of the unit nothing is lost in any case, else that is said."""
    losses = []
    for _ in range(2):
        kept = ("--state-dir", tmp_path, "--durability", durability)
        async with real_daemon(*kept, wrapper=hiding_proc, http="127.0.0.1:0") as daemon:
            assert await status_of(daemon.http, "/ws/v1/metrics") == 200
            losses.append(any(line["event"] == "journal_loss" for line in daemon.lines))
    assert losses == [False, durability != "full"]


def test_memory_tasks_and_addresses_are_limited() -> None:
    """The service cannot take the machine, and other machines reach neither it nor the sockets of systemd."""
    for name in ("ykactor.service", *SOCKETS):
        lines = (UNITS / name).read_text().splitlines()
        assert {"IPAddressDeny=any", "IPAddressAllow=localhost"} <= {*lines}, name
    assert {"MemoryMax=75%", "TasksMax=256"} <= {*(UNITS / "ykactor.service").read_text().splitlines()}


def test_users_can_be_told_apart() -> None:
    """SE-53: with ``PrivateUsers=`` the kernel shows all users but root as 65534 to the daemon."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNITS / "ykactor.service")
    assert "PrivateUsers" not in unit["Service"]


def test_both_sockets_are_the_daemons() -> None:
    """SE-50: systemd passes the Unix socket and the port under the name that is served; others cannot open the file."""
    lines = (UNITS / "ykactor.socket").read_text().splitlines()
    assert {"ListenStream=/run/ykactor/ws.sock", "ListenStream=127.0.0.1:9081", "FileDescriptorName=ws"} <= {*lines}
    assert "SocketMode=0660" in lines
    lines = (UNITS / "ykactor-http.socket").read_text().splitlines()
    assert {"ListenStream=127.0.0.1:9080", "FileDescriptorName=http", "Service=ykactor.service"} <= {*lines}
