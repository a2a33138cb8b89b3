"""The start of a task under systemd: the properties of its scope."""

import os

from localjobs import job_of

from ykactor.local.isolation import Isolation, Systemd
from ykactor.local.model import Task
from ykactor.local.processes import environment

TASK = Task("job-7", 3, attempt=1)
SYSTEMD = Systemd("/usr/bin/systemd-run", "/usr/bin/systemctl", ["--user"], {"XDG_RUNTIME_DIR": "/run/user/5"}, "ykactor-12ab")


def test_a_scope_has_the_limits_of_its_task():
    """A core is systemd's default weight, and memory a limit; the command follows. The name is of this local resource manager."""
    job = job_of("true", resource={"vcore": 2500, "memory": 2**30})
    assert SYSTEMD.prefix(job, TASK) == [
        *(
            "/usr/bin/systemd-run",
            "--user",
            "--scope",
            "--quiet",
            "--collect",
            "--unit",
            f"ykactor-12ab-job-7.3.r1-{os.getpid()}",
        ),
        *("--description", "ykactor job-7.3.r1", "-p", "CPUWeight=250", "-p", "MemoryMax=1073741824", "--"),
    ]


def test_what_a_task_has_not_asked_for_has_no_limit():
    """A task without memory has no limit of it, and one without cores the least weight."""
    prefix = SYSTEMD.prefix(job_of("true", resource={"gpu": 1}), TASK)
    assert [entry for entry in prefix if "=" in entry] == ["CPUWeight=1"]


def test_the_manager_is_found_whatever_the_job_has(tmp_path):
    """``systemd-run`` has the environment of the job, which may name no manager, or another one."""
    job = job_of("true", environ=[b"XDG_RUNTIME_DIR=/elsewhere", b"MINE=1"])
    found = environment(job, TASK, tmp_path, SYSTEMD.needs)
    assert (found[b"XDG_RUNTIME_DIR"], found[b"MINE"]) == (b"/run/user/5", b"1")


def test_without_systemd_nothing_comes_before_the_command():
    """And the description says that nothing limits it."""
    assert Isolation().prefix(job_of("true"), TASK) == []
    assert "nothing keeps them" in Isolation().description
