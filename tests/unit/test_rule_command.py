"""``ykactor rule``: looking up what a code means."""

import io
import sys

import pytest
from click.testing import CliRunner

from ykactor.rules import load
from ykactor.surfaces.cli import rule
from ykactor.surfaces.cli.rule import command


def look_up(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_one_rule() -> None:
    """A rule in a pipe has code and title, an empty line, and the Markdown text as it is."""
    found = load()["PE-25"]
    assert look_up("PE-25") == (0, f"PE-25 {found.title}\n\n{found.text}\n", "")


def test_several_rules_in_any_case() -> None:
    """Rules are printed in the order of the arguments."""
    code, out, _ = look_up("sc-51", "Pe-25")
    assert code == 0
    assert out.index("SC-51 ") < out.index("PE-25 ")


def test_all_rules_of_a_subject() -> None:
    """A code without a number is a subject; its rules come in the order of their numbers."""
    code, out, err = look_up("du")
    codes = [code for code in load() if code.startswith("DU-")]
    assert (code, err) == (0, "")
    assert len(codes) > 10
    assert out.index("DU-9 ") < out.index("DU-10 ")
    assert all(f"{code} {load()[code].title}\n" in out for code in codes)


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule on a terminal is formatted: the marks of Markdown are gone."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    rule._print([load()["PE-44"]])
    assert load()["PE-44"].title in terminal.getvalue()
    assert "##" not in terminal.getvalue()
    assert "**" not in terminal.getvalue()


def test_list() -> None:
    """One line for each rule: its code and its title; of all rules, or of those that begin with an argument."""
    code, out, err = look_up("--list")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == sorted(f"{found.code}  {found.title}" for found in load().values())
    assert out.index("\nDU-9 ") < out.index("\nDU-10 ")
    _, out, _ = look_up("--list", "pe-4", "SC-51")
    codes = [line.split()[0] for line in out.splitlines()]
    assert set(codes) == {rule for rule in load() if rule.startswith("PE-4")} | {"SC-51"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "no rule has the code x; ykactor rule --list prints all codes"),
        (["PE-999"], "no rule has the code PE-999; similar codes: PE-"),
        (["PE-25", "nonsense"], "no rule has the code nonsense; ykactor rule --list prints all codes"),
        (["XX-1"], "no rule has the code XX-1; ykactor rule --list prints all codes"),
        (["--list", "XX"], "no rule has a code that begins with XX; ykactor rule --list prints all codes"),
        ([], "Missing argument 'CODE': one or more codes, or --list."),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    """Exit code 2, nothing on standard output, and one sentence that says what to do."""
    code, out, err = look_up(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_near_codes() -> None:
    """Similar codes have the same letters and the nearest numbers, and are in order."""
    assert rule._near("pe-26", ["PE-1", "PE-25", "PE-28", "PR-26", "PE-30", "E26"]) == ["PE-25", "PE-28", "PE-30"]
    assert rule._near("E36b", ["E35", "E36", "E36a", "E37", "PE-36"]) == ["E35", "E36", "E36a"]
