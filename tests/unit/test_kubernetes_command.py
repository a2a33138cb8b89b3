"""``ykactor kubernetes`` on the command line: which API server is meant, and what is said if none can be found."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ykactor.kubernetes.api import ApiError
from ykactor.surfaces.cli.main import main


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine at which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def kubeconfig(path: Path, *ports: int, current: str | None = "c0") -> Path:
    """A kubeconfig with a context for each port: c0, c1 and so on."""
    names = [(f"c{number}", port) for number, port in enumerate(ports)]
    content = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name, _ in names],
        "clusters": [{"name": name, "cluster": {"server": f"https://127.0.0.1:{port}"}} for name, port in names],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(content if current is None else {**content, "current-context": current}))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    """The exit code and what is on standard error."""
    with pytest.raises(SystemExit) as ended:
        main(["kubernetes", *map(str, arguments)], prog_name="ykactor")
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("is_first", [True, False], ids=["before check", "behind check"])
def test_check_takes_the_options_on_both_sides_of_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, closed_port: int, is_first: bool
) -> None:
    """The API server of the chosen context is asked, and named when it does not answer."""
    options = ("--kubeconfig", kubeconfig(tmp_path / "config", 1, closed_port), "--context", "c1")
    code, errors = run(capsys, *((*options, "check") if is_first else ("check", *options)))
    assert (code, errors.count("\n")) == (1, 1)
    assert errors.startswith(f"Error: https://127.0.0.1:{closed_port}: no answer (ConnectError): ")


def test_check_prefers_what_is_behind_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path, closed_port: int) -> None:
    """An option that is given twice is that of ``check``."""
    file = kubeconfig(tmp_path / "config", 1, closed_port)
    _, errors = run(capsys, "--kubeconfig", file, "--context", "c0", "check", "--context", "c1")
    assert errors.startswith(f"Error: https://127.0.0.1:{closed_port}: ")


@pytest.mark.parametrize("name", ["", "a/b", "..", "Daemon", "-a", "a" * 254])
def test_a_lease_has_the_name_of_an_object(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The name is refused where it could not be a part of a path."""
    code, errors = run(capsys, "lease", "--", name)
    assert (code, f"found {name!r}, expected at most 253 of" in errors) == (2, True)


@pytest.mark.parametrize("command", [(), ("check",)], ids=["adapter", "check"])
def test_a_kubeconfig_without_a_current_context(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The error names the file, and the option that chooses a context."""
    file = kubeconfig(tmp_path / "config", 1, current=None)
    expected = f"Error: {file}: found no current-context, expected a kubeconfig that has one, or --context NAME\n"
    assert run(capsys, *command, "--kubeconfig", file) == (2, expected)


@pytest.mark.usefixtures("logging_restored")
def test_an_error_of_its_own_is_logged_and_has_an_exit_code_of_its_own(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever supervises it starts it again, as for ``serve``."""

    async def fail(*_: object) -> int:
        raise RuntimeError("surprise")

    monkeypatch.setattr("ykactor.surfaces.cli.kubernetes._run", fail)
    code, errors = run(capfd, "--kubeconfig", kubeconfig(tmp_path / "config", 1))
    assert (code, errors.count("\n")) == (70, 1)
    assert {"adapter_crashed", "surprise"} <= set(errors.replace('"', " ").replace(":", " ").replace("\\n", " ").split())


def test_an_answer_and_none_read_as_sentences() -> None:
    """An error of the API server begins with its status, another one says that there was no answer."""
    assert str(ApiError(409, "Conflict", "it exists")) == "409 Conflict: it exists"
    assert str(ApiError(0, "ReadTimeout", "timed out")) == "no answer (ReadTimeout): timed out"
