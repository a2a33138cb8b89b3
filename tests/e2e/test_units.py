"""The shipped systemd units, checked by systemd's own offline tools."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from ykactor.surfaces.cli import exit_codes

UNITS = Path(__file__).parents[2] / "systemd"
SERVICES = ("ykactor.service", "ykactor-local.service")
SOCKETS = ("ykactor.socket", "ykactor-http.socket")
#: Highest tolerated exposure in tenths, 0 (locked up) to 100. Ours is 14, nearly all of it for listening on the network.
EXPOSURE_MAX = 15

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
    """What is refused at the start is refused by the next one too; an error of the daemon itself is worth another start."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNITS / "ykactor.service")
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == [str(exit_codes.USAGE)]


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
