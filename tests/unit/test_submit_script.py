"""``ykactor submit-script``: the options in the lines of a script, and what is no script."""

import pytest
from click.testing import CliRunner

from ykactor.local.scripts import SCRIPT_MAX, command
from ykactor.surfaces.cli.jobs import script as script_module
from ykactor.surfaces.cli.main import main


@pytest.fixture
def submitted(monkeypatch):
    """The jobs that the command submits."""
    jobs = []
    monkeypatch.setattr(script_module, "submit", lambda directory, job, manner: jobs.append(job))
    return jobs


def run(tmp_path, text, *options, words=()):
    path = tmp_path / "sim.sh"
    path.write_bytes(text)
    return CliRunner().invoke(main, ["submit-script", "--local-dir", str(tmp_path), *options, str(path), *words])


def test_the_command_line_wins_over_the_lines(submitted, tmp_path):
    """An option that is repeatable is added; an argument behind the file is one of the script."""
    text = b"#!/bin/sh -e\n# why\n#YKACTOR --queue root.a --vcore 2 # two\n\n#YKACTOR --env 'A=x y' --env B=1 --time 1h\ntrue\n"
    assert run(tmp_path, text, "--queue", "root.b", "--env", "B=2", words=["--vcore", "4"]).exit_code == 0
    (job,) = submitted
    assert (job.queue, job.resource["vcore"], job.time_limit_s, job.name) == ("root.b", 2000, 3600, "sim.sh")
    assert {b"A=x y", b"B=2"} <= set(job.environ)
    assert job.arguments[1:] == [b"--vcore", b"4"]
    assert job.script == text
    assert command(job, tmp_path) == [b"/bin/sh", b"-e", bytes(tmp_path / "script"), b"--vcore", b"4"]


def test_lines_behind_the_first_command_are_no_options(submitted, tmp_path):
    """A note says so, because somebody may have meant them."""
    done = run(tmp_path, b"#!/bin/sh\ntrue\n#YKACTOR --queue root.a\n")
    assert [job.queue for job in submitted] == [""]
    assert done.stderr == f"{tmp_path}/sim.sh:3: a line #YKACTOR behind the first command is not read\n"


def test_lines_of_slurm_are_not_left_out_in_silence(submitted, tmp_path):
    """A script that has no other lines is refused; a converted one may have some as comments."""
    done = run(tmp_path, b"#!/bin/sh\n#SBATCH --mem 4G\ntrue\n")
    assert (done.exit_code, submitted) == (1, [])
    assert "ykactor convert sbatch" in done.stderr
    assert run(tmp_path, b"#!/bin/sh\n#SBATCH --mail-type=END\n#YKACTOR --memory 4Gi\ntrue\n").exit_code == 0


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"#YKACTOR --partition x", "No such option '--partition', expected --queue"),
        (b"#YKACTOR vcore 2", "unexpected extra arguments (vcore 2)"),
        (b"#YKACTOR --vcore NaN", "found 'NaN'"),
        (b"#YKACTOR", "expected options of ykactor run"),
        (b"#YKACTOR--vcore 2", "expected options of ykactor run"),
        (b"#YKACTOR --name", "requires an argument"),
        (b"#YKACTOR --name 'x", "No closing quotation"),
        (b"#YKACTOR --hold -- --vcore 2", "expected options of ykactor run"),
        (b"#YKACTOR --wait", "No such option '--wait'"),
    ],
)
def test_a_line_that_is_wrong_is_named(submitted, tmp_path, line, error):
    """The error has its number; nothing is submitted."""
    done = run(tmp_path, b"#!/bin/sh\n# a comment\n" + line + b"\ntrue\n")
    assert (done.exit_code, submitted) == (1, [])
    assert f"{tmp_path}/sim.sh:3: " in done.stderr
    assert error in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "sim.sh:1: found no program in its first line"),
        (b"true\n", "sim.sh:1: found no program in its first line"),
        (b"#! \ntrue\n", "sim.sh:1: found no program in its first line"),
        (b"#!/bin/sh\r\ntrue\r\n", "carriage return"),
        (b"#!/bin/sh" + b"x" * 300, "in at most 255 bytes"),
        (b"#!/bin/sh\n" + b"x" * SCRIPT_MAX, f"more than {SCRIPT_MAX} bytes"),
    ],
)
def test_what_is_no_script(submitted, tmp_path, text, error):
    """A program without such a line is for ``run``."""
    done = run(tmp_path, text)
    assert (done.exit_code, submitted) == (1, [])
    assert error in done.stderr


def test_a_script_may_come_from_standard_input(submitted, tmp_path):
    """The job has no name then."""
    done = CliRunner().invoke(main, ["submit-script", "-", "1"], input=b"#!/bin/sh\n#YKACTOR --vcore 3\n")
    assert done.exit_code == 0
    assert [(job.name, job.resource["vcore"], job.arguments) for job in submitted] == [("", 3000, [b"-", b"1"])]


@pytest.mark.parametrize("words", [[], ["--nothing", "x"], ["nowhere.sh"]])
def test_without_a_script_there_is_an_error(submitted, words):
    """And nothing else."""
    done = CliRunner().invoke(main, ["submit-script", *words])
    assert (done.exit_code, submitted, type(done.exception)) == (2, [], SystemExit)


def test_the_help_needs_no_script():
    """A file that is named behind it may not be there."""
    assert "#YKACTOR --queue root.batch" in CliRunner().invoke(main, ["submit-script", "--help", "nowhere.sh"]).stdout
