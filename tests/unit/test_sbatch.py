"""``ykactor convert sbatch``: the options of Slurm in a script as those of ``run``, and what has no counterpart."""

import shlex

import pytest
from click.testing import CliRunner
from localjobs import job_of
from msgspec import structs

from ykactor.local.model import Task
from ykactor.local.processes import environment
from ykactor.surfaces.cli.jobs import script as script_module
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.sbatch import convert


def converted(options):
    """The words that the options of one line become, and what is lost."""
    found = convert(f"#!/bin/sh\n#SBATCH {options}\n")
    words = [line.removeprefix("#YKACTOR ") for line in found.text.split("\n") if line.startswith("#YKACTOR")]
    return " ".join(words), [each.what for each in found.lost]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-J align", "--name align"),
        ("--job-name 'two words'", "--name 'two words'"),
        ("-a 1-200%10,300", "--array 1-200%10,300"),
        ("-t 90", "--time 1h30m"),
        ("-t 90:30", "--time 1h30m30s"),
        ("-t 1:30:00", "--time 1h30m"),
        ("-t 1-12", "--time 36h"),
        ("-t 1-12:30", "--time 36h30m"),
        ("-t 0-00:00:05", "--time 5s"),
        ("-t 0", ""),
        ("--time=UNLIMITED", ""),
        ("--mem=4G", "--memory 4Gi"),
        ("--mem=4000", "--memory 4000Mi"),
        ("--mem-per-cpu=2G -c4", "--memory 8Gi --vcore 4"),
        ("--mem-per-cpu=2G", "--memory 2Gi"),
        ("-n 4", "--vcore 4 --env SLURM_NTASKS=4 --env SLURM_CPUS_PER_TASK=1"),
        ("-n 4 -c 2", "--vcore 8 --env SLURM_NTASKS=4 --env SLURM_CPUS_PER_TASK=2"),
        ("-N 1 --ntasks-per-node=2", "--vcore 2 --env SLURM_NTASKS=2 --env SLURM_CPUS_PER_TASK=1"),
        ("--gres=gpu:2,shard:3", "--resource shard=3 --gpu 2"),
        ("--gres=gpu", "--gpu 1"),
        ("-G 2", "--gpu 2"),
        ("--gpus-per-task=2 -n 2", "--gpu 4 --vcore 2 --env SLURM_NTASKS=2 --env SLURM_CPUS_PER_TASK=1"),
        ("-p batch", "--queue root.batch"),
        ("-d afterok:12:13,afterany:14_2", "--after job-12:ok --after job-13:ok --after job-14.2:any"),
        ("-d aftercorr:3,afternotok:4", "--after job-3:ok --after job-4:failed"),
        ("-o out/%x_%3a.txt -e err.%A -i in", "--output out/%x_%3a.txt --error err.%A --input in"),
        ("-a 1-2 -o %j.out -e %%j.%3j -i %j_%a", "--array 1-2 --output %A_%a.out --error %%j.%3A_%a --input %j_%a"),
        ("-D /data", "--chdir /data"),
        ("--export=ALL", ""),
        ("--export=NONE", "--clean-env"),
        ("--export=ALL,A=1,B", "--env A=1 --env B"),
        ("--export=A=1", "--clean-env --env A=1"),
        ("-b 16:00", "--begin 16:00"),
        ("-b now+90minutes", "--begin +1h30m"),
        ("-b teatime", "--begin 16:00"),
        ("-b 2027-01-20T12:34", "--begin 2027-01-20T12:34"),
        ("-H --nice", "--hold --priority -100"),
        ("--nice=-5", "--priority 5"),
        ("--priority=7 --no-requeue --parsable", "--priority 7"),
        ("--job 'x' --parti=b # a comment", "--name x --queue root.b"),
    ],
)
def test_a_counterpart(options, words):
    """Nothing is lost of what is usual."""
    assert converted(options) == (words, [])


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ("--mail-type=END -A proj", ["--mail-type=END", "--account=proj"]),
        ("-N 2", ["--nodes=2"]),
        ("--mem=0 -t soon -c 0", ["--mem=0", "--time=soon", "--cpus-per-task=0"]),
        ("-p a,b", ["--partition=a,b"]),
        ("-d singleton -o %J", ["--dependency=singleton", "--output=%J"]),
        ("-d afterok:1?afterok:2", ["--dependency=afterok:1?afterok:2"]),
        ("-d afterok:$JOB", ["--dependency=afterok:$JOB"]),
        ("--requeue --exclusive", ["--requeue", "--exclusive"]),
        ("-b tomorrow --export=NIL", ["--begin=tomorrow", "--export=NIL"]),
        ("--nothing", ["--nothing"]),
        ("--n 3", ["--n 3"]),
        ("word", ["word"]),
        ("-J", ["-J"]),
        ("-J 'x", ["-J 'x"]),
        ("-t 99999999999999999999", ["--time=99999999999999999999"]),
    ],
)
def test_what_has_none(options, lost):
    """The option is named with the reason, and converts to nothing."""
    assert converted(options) == ("", lost)


def test_a_wrong_number_of_tasks_leaves_the_cores():
    """The wrong one is named, and the right option has the words."""
    assert converted("-n x -c 4") == ("--vcore 4", ["--ntasks=x"])


def test_a_type_of_gpus_is_named():
    """The number of them has a counterpart."""
    assert converted("--gres=gpu:a100:2") == ("--gpu 2", ["a100"])
    assert converted("-G v100:1,a100:2") == ("--gpu 3", ["v100", "a100"])


SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=old
#SBATCH --job-name=sim --mem=1G
#SBATCH --mail-user=me@example.org --nodes=1

#SBATCH -a 1-3
echo $SLURM_ARRAY_TASK_ID $SLURM_TMPDIR
#SBATCH --time=1
  srun hostname
"""
CONVERTED = """\
#!/bin/bash
# not needed: #SBATCH --job-name=old
#YKACTOR --name sim --memory 1Gi
# no counterpart: --mail-user=me@example.org

#YKACTOR --array 1-3
#YKACTOR --slurm-env
echo $SLURM_ARRAY_TASK_ID $SLURM_TMPDIR
#SBATCH --time=1
  srun hostname
"""


def test_a_script(tmp_path, monkeypatch):
    """All else stays as it is; what is lost is named by line, and the result can be submitted."""
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    done = CliRunner().invoke(main, ["convert", "sbatch", str(path)])
    assert (done.exit_code, done.stdout) == (1, CONVERTED)
    assert done.stderr.splitlines() == [
        f"{path}:4: --mail-user=me@example.org: nobody is sent mail: --on-end COMMAND can do that",
        f"{path}:7: SLURM_TMPDIR: there is no such variable",
        f"{path}:9: srun: a job has no steps: call the program itself",
    ]
    jobs = []
    monkeypatch.setattr(script_module, "submit", lambda directory, job, manner: jobs.append(job))
    assert CliRunner().invoke(main, ["submit-script", "-"], input=done.stdout).exit_code == 0
    assert [(job.name, job.count, job.has_slurm_names) for job in jobs] == [("sim", 3, True)]


def test_a_script_without_options():
    """A script has the variables of Slurm only if it uses them."""
    assert convert("#!/bin/sh\ntrue\n").text == "#!/bin/sh\ntrue\n"
    assert convert("#!/bin/sh\necho $SLURM_JOB_ID\n").text == "#!/bin/sh\n#YKACTOR --slurm-env\necho $SLURM_JOB_ID\n"
    assert convert("").text == ""


def test_a_word_is_quoted_as_a_shell_needs_it():
    """The converted option says what the other one has said."""
    words, _ = converted("-J 'a \"b\" $c'")
    assert shlex.split(words) == ["--name", 'a "b" $c']


def test_the_variables_of_slurm(tmp_path):
    """A job has them if it asks for them; it may say how many tasks of Slurm it stands for."""
    job = job_of("", id="job-7", name="sim", queue="root.batch", first=1, last=5, environ=[b"SLURM_NTASKS=4", b"SLURM_JOB_ID=1"])
    task = Task("job-7", 3, attempt=2, gpus=[1], node="n1")
    assert b"SLURM_PROCID" not in environment(job, task, tmp_path, {})
    found = environment(structs.replace(job, has_slurm_names=True), task, tmp_path, {})
    assert (
        found.items()
        >= {
            b"SLURM_JOB_ID": b"7",
            b"SLURM_ARRAY_TASK_ID": b"3",
            b"SLURM_ARRAY_TASK_MAX": b"5",
            b"SLURM_NTASKS": b"4",
            b"SLURM_JOB_PARTITION": b"batch",
            b"SLURM_RESTART_COUNT": b"2",
            b"YKACTOR_TASK": b"3",
        }.items()
    )
    alone = structs.replace(job, has_slurm_names=True, first=0, last=0)
    assert b"SLURM_ARRAY_TASK_ID" not in environment(alone, Task("job-7", 0), tmp_path, {})
