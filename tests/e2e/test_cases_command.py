"""``ykactor test``: cases of what a queue configuration is expected to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest
from click.testing import CliRunner
from daemon import run_command
from queuetexts import SAMPLES

import ykactor.sim
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a, resources: {max: {vcore: 3}}}, {name: b}]
"""
TWO_NODES = {"n1": {"vcore": 2}, "n2": {"vcore": 2}}


def case(*expect: dict[str, object], steps: list[dict[str, object]] | None = None, **more: object) -> dict[str, object]:
    """Four tasks of one core in a queue that may use three."""
    first = {"submit": {"app": "x", "queue": "root.a", "asks": "4 x vcore=1"}}
    return {"name": "case", "nodes": TWO_NODES, "steps": [first, *(steps or [])], "expect": list(expect), **more}


def lines_of(tmp_path: Path, *cases: dict[str, object], code: int = 0, flags: tuple[object, ...] = ()) -> list[str]:
    """The lines about some cases; the command runs in this process, because it needs nothing of its own."""
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"config": "queues.yaml", "cases": list(cases)}, indent=1))
    (tmp_path / "queues.yaml").write_text(QUEUES)
    done = CliRunner().invoke(main, ["test", str(file), *map(str, flags)])
    assert done.exit_code == code, done.output
    return [line.removeprefix(f"{tmp_path}/") for line in done.output.splitlines()]


async def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """The file of ``sim/README.md`` passes, and the command prints what is there."""
    text = (Path(ykactor.sim.__file__).parent / "README.md").read_text()
    (example,) = [found for found in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "\ncases:" in found]
    (printed,) = re.findall(r"\$ ykactor test cases.yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "cases.yaml").write_text(example)
    assert await run_command("test", tmp_path / "cases.yaml") == (printed, "")


def test_the_samples_do_what_they_say() -> None:
    """Every sample of a queue file has cases, and they pass."""
    config = Path(__file__).parents[2] / "config"
    text = (config / "cases.yaml").read_text()
    assert {path.name for path in SAMPLES} <= {*re.findall(r"\S+\.yaml", text)}
    done = CliRunner().invoke(main, ["test", str(config / "cases.yaml")])
    assert (done.exit_code, done.output) == (0, "7 cases passed\n")


MET: list[dict[str, object]] = [
    {"placed": ["x-1", "x-3"]},
    {"placed": {"x-1": "n1"}, "pending": ["x-4"]},
    {"pending": {"x-4": "QUOTA in root.a"}},
    {"pending": {"x-4": "/wants 1, has 0 of 3 vcore/"}},
    {"used": {"root.a": {"vcore": 3}, "root.b": {"vcore": 0}}},
    {"order": ["x-1", "x-3"]},
    {"states": {"x": "Running"}},
    {"by": 0, "placed": ["x-2"]},
]


@pytest.mark.parametrize("expect", MET, ids=str)
def test_what_is_met(tmp_path: Path, expect: dict[str, object]) -> None:
    """A case passes when all of its expectations are met."""
    assert lines_of(tmp_path, case(expect)) == ["1 case passed"]


WAITS = "it waits, QUOTA in root.a: wants 1, has 0 of 3 vcore in queue root.a"
MISSED = [
    ({"placed": ["x-4"]}, f"placed x-4: expected it to run, found {WAITS}"),
    ({"placed": {"x-1": "n2"}}, "placed x-1: expected n2, found it runs on n1"),
    ({"by": 0, "placed": {"x-1": "n2"}}, "placed x-1: expected n2, found it was placed on n1"),
    ({"pending": {"x-4": "NODES"}}, f"pending x-4: expected NODES, found {WAITS}"),
    ({"pending": {"x-4": "QUOTA in root"}}, f"pending x-4: expected QUOTA in root, found {WAITS}"),
    ({"pending": ["x-1"]}, "pending x-1: expected it to wait, found it runs on n1"),
    ({"pending": ["x-9"]}, "pending x-9: expected it to wait, found no task of this name, maybe x-4, x-3, x-2"),
    ({"preempted": ["x-1"]}, "preempted x-1: expected it to be preempted, found it runs on n1"),
    ({"ended": ["x-1"]}, "ended x-1: expected it to have ended, found it runs on n1"),
    ({"rejected": ["x-1"]}, "rejected x-1: expected it to be rejected, found it runs on n1"),
    ({"order": ["x-3", "x-1"]}, "order: expected x-3, x-1, found x-1, x-3"),
    ({"used": {"root.a": {"vcore": "2500m"}}}, "used in root.a: expected 2500m vcore, found 3 vcore"),
    ({"used": {"root.c": {"vcore": 1}}}, "used in root.c: expected a queue, found no queue of this path"),
    ({"states": {"x": "Completed"}}, "state of x: expected Completed, found Running"),
    ({"states": {"y": "Running"}}, "state of y: expected Running, found no application of this name"),
]  # fmt: skip


@pytest.mark.parametrize(("expect", "line"), MISSED, ids=[line for _, line in MISSED])
def test_what_is_missed(tmp_path: Path, expect: dict[str, object], line: str) -> None:
    """A line says where the expectation is, what it expects, and what was found."""
    first, last = lines_of(tmp_path, case(expect), code=exit_codes.FAILED)
    assert re.sub(r":\d+:", ":", first) == f"cases.json: case: at 0: {line}"
    assert last == "1 of 1 case failed"


def test_steps_in_their_time(tmp_path: Path) -> None:
    """A step has its effect from its second on, whatever it does."""
    closed = QUEUES.replace("vcore: 3", "vcore: 1")
    steps: list[dict[str, object]] = [
        {"at": 5, "release": ["x-1"]},
        {"at": 10, "submit": {"app": "y", "queue": "root.b", "asks": [{"resources": {"vcore": 1}, "runSeconds": 7}]}},
        {"at": 20, "drain": ["n1"], "config": closed},
        {"at": 20, "submit": {"app": "z", "queue": "root.b", "asks": "vcore=1"}},
        {"at": 30, "complete": ["x"], "remove": ["n1"]},
        {"at": 40, "send": {"type": "HoldQueue", "queueName": "root.b", "held": True}},
        {"at": 40, "submit": {"app": "w", "queue": "root.b", "asks": "vcore=1"}},
        {"at": 50, "config": "partitions: 3"},
    ]
    expect: list[dict[str, object]] = [
        {"at": 4.5, "pending": ["x-4"]},
        {"at": 5, "placed": ["x-4"], "ended": ["x-1"]},
        {"at": 16, "placed": ["y-1"]},
        {"at": 17, "ended": ["y-1"]},
        {"by": 17, "placed": ["y-1"]},
        {"at": 30, "ended": ["x-2", "x-3", "x-4"], "placed": {"z-1": "n2"}},
        {"at": 40, "pending": {"w-1": "HELD"}, "used": {"root.b": {"vcore": 1}}},
        {"rejected": {"configuration": "partitions"}},
    ]
    assert lines_of(tmp_path, case(*expect, steps=steps)) == ["1 case passed"]


def test_tasks_that_are_not_there(tmp_path: Path) -> None:
    """The line says why: their application was rejected, or they come later."""
    steps: list[dict[str, object]] = [
        {"submit": {"app": "y", "queue": "root.none", "asks": "vcore=1"}},
        {"at": 9, "submit": {"app": "z", "queue": "root.b", "asks": "vcore=1"}},
    ]
    rejected, later, _ = lines_of(tmp_path, case({"at": 5, "placed": ["y-1", "z-1"]}, steps=steps), code=exit_codes.FAILED)
    assert "placed y-1: expected it to run, found its application y was rejected: failed to place application y" in rejected
    assert later.endswith("placed z-1: expected it to run, found it was not submitted yet")


def test_a_step_that_is_refused(tmp_path: Path) -> None:
    """A message without any effect fails the case, whatever it expects."""
    steps: list[dict[str, object]] = [{"at": 1, "send": {"type": "ScheduleRequest", "steps": 1}}]
    first, _ = lines_of(tmp_path, case({"placed": ["x-1"]}, steps=steps), code=exit_codes.FAILED)
    assert "steps: expected none to be refused, found at 1" in first


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (case(), "cases[0].expect: found a list, expected a list of length >= 1"),
        (case({"places": ["x"]}), "cases[0].expect[0].places: found a field that does not exist here"),
        (case({"at": 1, "by": 2}), "cases[0].expect[0]: found both at and by, expected one of them"),
        (case({"by": 2, "pending": ["x"]}), "found by, expected at for what may change again"),
        (case({"pending": {"x-1": "/(/"}}), 'cases[0].expect[0].pending.x-1: found "/(/", expected a regular expression'),
        (case({"used": {"root.a": {"vcore": "1x"}}}), "cases[0].expect[0].used.root.a.vcore: found '1x'"),
        (case({"placed": ["x-1"]}, steps=[{"at": 3, "drain": ["n1"]}, {"at": 2, "drain": ["n1"]}]), "expected at least 3"),
        (case({"placed": ["x-1"]}, steps=[{"at": 3}]), "cases[0].steps[1]: found a step that does nothing"),
        (case({"placed": ["x-1"]}, steps=[{"release": ["q-1"]}]), 'steps[1].release[0]: found "q-1", expected a task of'),
        (case({"placed": ["x-1"]}, steps=[{"complete": ["q"]}]), 'steps[1].complete[0]: found "q", expected an application of'),
        (case({"placed": ["x-1"]}, steps=[{"drain": ["n9"]}]), 'steps[1].drain[0]: found "n9", expected a node of'),
        (case({"placed": ["x-1"]}, steps=[{"remove": ["n9"]}]), 'steps[1].remove[0]: found "n9", expected a node of'),
        (case({"placed": ["x-1"]}, steps=[{"submit": {"app": "x", "queue": "root.b"}}]), "it where x is submitted first"),
        (case({"placed": ["x-1"]}, steps=[{"submit": {"app": "q", "asks": "100001 x a=1"}}]), "expected at most 100000 tasks"),
        (case({"placed": ["x-1"]}, steps=[{"submit": {"app": "q", "asks": "9" * 5000 + " x a=1"}}]), "at most 100000 tasks"),
        (case({"placed": 3}), "cases[0].expect[0].placed: found 3, expected a mapping or a list"),
        (case({"placed": [3]}), "cases[0].expect[0].placed[0]: found 3, expected a text"),
        (case({"pending": {"x-4": "QOTA in root.a"}}), 'found "QOTA in root.a", expected a regular expression between slashes'),
        (case({"at": 3}), "cases[0].expect[0]: found nothing that is expected, expected one of placed, pending"),
        (case({"placed": ["x-1"]}, steps=[{"submit": {"app": "q", "asks": "4 vcore"}}]), "expected tasks such as 4 x vcore=1"),
        (case({"placed": ["x-1"]}, steps=[{"attributes": {"n9": {"a": "b"}}, "drain": ["n1"]}]), "expected a node of this step"),
        (case({"placed": ["x-1"]}, steps=[{"send": {"type": "Nothing"}}]), "cases[0].steps[1].send"),
        (case({"placed": ["x-1"]}, config="none.yaml"), "No such file or directory"),
        (case({"placed": ["x-1"]}, config="partitions: 3"), "cases.0.config:1:13"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_file_that_is_wrong(tmp_path: Path, broken: dict[str, object], line: str) -> None:
    """Exit code 1, or 2 for a file that is not there, and the place of the mistake; nothing is run."""
    code = exit_codes.USAGE if line.startswith("No such file") else exit_codes.FAILED
    assert line in "\n".join(lines_of(tmp_path, broken, code=code))


def test_a_name_twice(tmp_path: Path) -> None:
    """Each case has a name of its own."""
    lines = lines_of(tmp_path, case({"placed": ["x-1"]}), case({"placed": ["x-1"]}), code=exit_codes.FAILED)
    assert 'cases[1].name: found "case" a second time' in lines[0]


def test_some_of_the_cases_for_other_programs(tmp_path: Path) -> None:
    """``-k`` chooses by name, ``--junit`` writes all that ran with their failures."""
    passes, fails = case({"placed": ["x-1"]}), case({"placed": ["x-4"]}, name="fails <&>")
    assert (lines_of(tmp_path, passes, fails, flags=("-k", "cas")))[-1] == "1 case passed"
    lines_of(tmp_path, passes, fails, code=exit_codes.FAILED, flags=("--junit", tmp_path / "junit.xml"))
    (suite,) = parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [(found.get("name"), [child.tag for child in found]) for found in suite] == [("case", []), ("fails <&>", ["failure"])]
    assert "no case has 'zzz' in its name" in (lines_of(tmp_path, passes, code=exit_codes.FAILED, flags=("-k", "zzz")))[0]
