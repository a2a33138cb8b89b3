"""Recorded jobs as scenarios: the Standard Workload Format, and Slurm's accounting."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs
from seeds import seeds
from simulated import simulate

from ykactor.core.messages.facts import Allocated, Released
from ykactor.sim.traces import Job, LeftOut, Machine, parts_of, scenario_of
from ykactor.surfaces.cli.convert import command
from ykactor.wire.scenario import Scenario, load
from ykactor.wire.si import messages as si

HEADER = "; MaxNodes: 4\n; MaxProcs: 16\n; Note: 3 of them\n"


def swf_line(number: int, submit: float = 0, **known: object) -> str:
    """A line; what is not given is not known."""
    names = ("wait", "run", "allocated", "cpu", "used", "requested", "time", "memory", "status", "user", "group", "executable")
    rest = [str(known.get(name, -1)) for name in (*names, "queue", "partition", "preceding", "think")]
    return " ".join([str(number), str(submit), *rest]) + "\n"


def converted(tmp_path: Path, kind: str, text: str, *flags: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    """The lines of the scenario, and what was said on standard error."""
    file = tmp_path / "trace.txt"
    file.write_text(text)
    done = CliRunner().invoke(command, [kind, str(file), *flags, "-o", str(tmp_path / "out.jsonl")])
    assert done.exit_code == code, done.output
    lines = (tmp_path / "out.jsonl").read_text().splitlines() if code == 0 else []
    return [json.loads(line) for line in lines], done.stderr


def swf(tmp_path: Path, *lines: str, flags: tuple[str, ...] = (), code: int = 0) -> tuple[list[dict[str, Any]], str]:
    return converted(tmp_path, "swf", HEADER + "".join(lines), *flags, code=code)


def test_a_job_of_swf(tmp_path: Path) -> None:
    """Queue, user and group by their numbers, memory for each processor, the run time, and the recorded wait in a tag."""
    line = swf_line(7, 30, wait=12, run=100, requested=2, memory=1024, user=3, group=5, queue=1)
    (head, nodes, application, asks), said = swf(tmp_path, line, flags=("--node-memory", "8Gi"))
    assert said == "converted 1 job\n"
    assert [node["schedulableResource"] for node in nodes["nodes"]] == [{"vcore": 4000, "memory": 2**33}] * 4
    (new,) = application["new"]
    assert (new["applicationID"], new["queueName"], new["ugi"]) == ("job-7", "root.q1", {"user": "u3", "groups": ["g5"]})
    assert new["tags"] == {"recorded-wait-seconds": "12"}
    (ask,) = asks["allocations"]
    assert (ask["resourcePerAlloc"], ask["runSeconds"]) == ({"vcore": 2000, "memory": 2 * 2**20}, 100)
    assert (application["at"], asks["at"], head["until"]) == (30, 30, 190)


def test_what_is_not_known(tmp_path: Path) -> None:
    """Allocated processors in place of requested ones; no user, group, queue or wait; memory only with --node-memory."""
    (_, nodes, application, asks), _ = swf(tmp_path, swf_line(1, run=5, allocated=3, memory=9))
    (new,) = application["new"]
    assert (new["queueName"], new["ugi"], new.get("tags", {})) == ("root.default", {"user": "unknown"}, {})
    assert asks["allocations"][0]["resourcePerAlloc"] == {"vcore": 3000}
    assert nodes["nodes"][0]["schedulableResource"] == {"vcore": 4000}


def test_jobs_that_are_left_out(tmp_path: Path) -> None:
    """Each is counted with its reason."""
    did_not_run = [swf_line(1, run=0, requested=1), swf_line(2, run=-1, requested=1)]
    _, said = swf(tmp_path, *did_not_run, swf_line(3, run=5), swf_line(4, run=1, requested=1))
    assert said == "converted 1 job; left out 3 jobs: it did not run (2), its number of processors is not known (1)\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 2 3\n", "trace.txt:4: found 3 fields, expected 18"),
        (swf_line(1, run="x"), "trace.txt:4: field run: found 'x', expected a number"),
        (swf_line(1) + swf_line(1), "trace.txt:5: field job: found 'job-1', expected a number that did not occur before"),
    ],
    ids=["short", "text", "twice"],
)
def test_wrong_lines_of_swf(tmp_path: Path, line: str, expected: str) -> None:
    """The place, what was found, and what was expected."""
    assert expected in swf(tmp_path, line, code=1)[1]


def test_a_machine_of_unknown_size(tmp_path: Path) -> None:
    """A trace without its size needs the options."""
    _, said = converted(tmp_path, "swf", swf_line(1, run=5, requested=1), code=2)
    assert "does not say how large the machine is: add --nodes and --node-processors" in said
    converted(tmp_path, "swf", swf_line(1, run=5, requested=1), "--nodes", "2", "--node-processors", "8")


SACCT = """JobIDRaw|User|Group|Account|Partition|Submit|Start|ElapsedRaw|ReqCPUS|ReqTRES|ReqMem|State
10|ann|staff|phys|long,short|2024-03-01T12:00:05|2024-03-01T12:00:35|60|4|billing=4,cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=8G,node=1||COMPLETED
10.batch||||||||4|||COMPLETED
11|bob|staff|chem|Short|2024-03-01T12:00:00|Unknown|0|2||100Mc|CANCELLED by 0
12|bob|staff|chem|Short|2024-03-01T12:00:00|2024-03-01T12:00:00|7|2||100Mc|FAILED
"""
SIZE = ("--nodes", "2", "--node-processors", "4", "--node-gpus", "2", "--node-memory", "16Gi")


def test_the_accounting_of_slurm(tmp_path: Path) -> None:
    """Steps are no jobs; times begin at the first submission; amounts are in ReqTRES, or in ReqMem for each processor."""
    (_, _, first, first_asks, second, second_asks), said = converted(tmp_path, "sacct", SACCT, *SIZE)
    assert said == "converted 2 jobs; left out 1 job: it did not run (1)\n"
    assert [(each["at"], each["new"][0]["queueName"]) for each in (first, second)] == [(0, "root.short"), (5, "root.long")]
    assert first_asks["allocations"][0]["resourcePerAlloc"] == {"vcore": 2000, "memory": 200 * 2**20}
    assert second_asks["allocations"][0]["resourcePerAlloc"] == {"vcore": 4000, "memory": 2**33, "gpu": 2}
    assert second["new"][0]["tags"] == {"recorded-wait-seconds": "30"}
    by_account, _ = converted(tmp_path, "sacct", SACCT, *SIZE, "--queue-by", "account")
    assert by_account[4]["new"][0]["queueName"] == "root.phys"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("ElapsedRaw", "Other", "trace.txt:1: column ElapsedRaw or Elapsed: missing"),
        ("|60|", "|soon|", "trace.txt:2: column ElapsedRaw: found 'soon', expected seconds"),
        ("|2024-03-01T12:00:05|", "|today|", "trace.txt:2: column Submit: found 'today', expected a time"),
        ("|COMPLETED\n10.batch", "\n10.batch", "trace.txt:2: found 11 columns, expected 12"),
        ("\n12|", "\n10|", "trace.txt:5: column JobID"),
    ],
)
def test_wrong_lines_of_sacct(tmp_path: Path, before: str, after: str, expected: str) -> None:
    """The place, what was found, and what was expected."""
    assert before in SACCT
    assert expected in converted(tmp_path, "sacct", SACCT.replace(before, after, 1), *SIZE, code=1)[1]


@pytest.mark.parametrize(("elapsed", "seconds"), [("00:01:05", 65), ("1-02:03:04", 93784), ("05:06", 306), ("10:00:00", 36000)])
def test_elapsed_times(tmp_path: Path, elapsed: str, seconds: int) -> None:
    """``Elapsed`` where there is no ``ElapsedRaw``."""
    lines, _ = converted(tmp_path, "sacct", f"JobID|Submit|Elapsed|NCPUS\n1_2|2024-03-01T00:00:00|{elapsed}|1\n", *SIZE)
    assert lines[3]["allocations"][0]["runSeconds"] == seconds


@pytest.mark.parametrize(
    ("processors", "gpus", "parts"), [(4, 0, 1), (5, 0, 5), (8, 0, 2), (9, 0, 3), (12, 6, 3), (8, 8, 4), (7, 0, 7)]
)
def test_wide_jobs(processors: int, gpus: int, parts: int) -> None:
    """The fewest equal parts of which each fits on a node of 4 processors and 2 GPUs."""
    job = Job("j", 0, 1, processors, gpus=gpus)
    assert parts_of(job, Machine(9, 4, gpus=2)) == parts


def starts_of(scenario: Scenario) -> dict[str, list[int]]:
    """The seconds at which the tasks of each application begin."""
    found: dict[str, list[int]] = {}
    for fact in simulate(scenario).facts:
        if isinstance(fact, Allocated) and not fact.ask.placeholder:
            found.setdefault(fact.ask.application_id, []).append(fact.at_ns // 10**9)
    return found


def test_the_parts_of_a_wide_job_begin_together(tmp_path: Path) -> None:
    """The parts run when the last of them has its place: the others hold theirs until then, and none runs out of its time."""
    jobs = [Job("first", 0, 50, 4), Job("wide", 10, 100, 12), Job("last", 20, 5, 4)]
    scenario = scenario_of("jobs", Machine(3, 4), jobs, LeftOut())
    assert starts_of(structs.replace(scenario, until=1000)) == {"first": [0], "wide": [50, 50, 50], "last": [150]}


def test_gangs_that_block_each_other_go_on(tmp_path: Path) -> None:
    """Two that have half of their places give them up after 15 minutes: their parts run then as there is room."""
    jobs = [Job("both", 0, 50, 16, queue="a"), *(Job(name, 10, 100, 16, queue=name) for name in "ab")]
    scenario = structs.replace(scenario_of("jobs", Machine(4, 4), jobs, LeftOut()), until=5000)
    found = starts_of(scenario)
    assert {name: len(starts) for name, starts in found.items()} == {"both": 4, "a": 4, "b": 4}


@pytest.mark.parametrize("seed", seeds(5))
def test_every_job_is_converted_or_counted(seed: int, tmp_path: Path) -> None:
    """A converted job runs for as many processor seconds as it did."""
    rng = random.Random(seed)
    jobs = [
        Job(str(number), rng.randrange(-2, 100), rng.randrange(-1, 50), rng.randrange(-1, 30), queue=rng.choice(["", "q1"]))
        for number in range(100)
    ]
    left_out, machine = LeftOut(), Machine(8, 4)
    scenario = scenario_of("jobs", machine, jobs, left_out)
    applications = [message for message in scenario.messages if isinstance(message.request, si.ApplicationRequest)]
    assert len(applications) + left_out.counts.total() == len(jobs)
    ran = [job for job in jobs if job.processors > 0 and job.run_s > 0 and job.submit_s >= 0]
    assert len(applications) == len(ran)
    later = type(scenario)(scenario.name, scenario.config, 100_000, messages=scenario.messages)
    began, used = dict[str, int](), 0
    for fact in simulate(later).facts:
        match fact:
            case Allocated(ask=ask, at_ns=at_ns) if not ask.placeholder:
                began[ask.allocation_key] = at_ns
            case Released(ask=ask, at_ns=at_ns) if not ask.placeholder:
                used += ask.resource["vcore"] * (at_ns - began.pop(ask.allocation_key))
    assert began == {}
    assert used == sum(int(job.run_s) * job.processors for job in ran) * 1000 * 10**9


def test_a_trace_that_was_written_is_read_again(tmp_path: Path) -> None:
    """The scenario is a file that ``simulate`` takes."""
    swf(tmp_path, *(swf_line(number, number, run=5, requested=number) for number in range(1, 20)))
    assert len([fact for fact in simulate(load(tmp_path / "out.jsonl")).facts if isinstance(fact, Allocated)]) > 19
