"""The user of a task, as its launcher finds it in a directory of users that may not answer."""

import os
import pwd
import signal

import pytest

from ykactor.local import launcher


def test_the_user_is_looked_up() -> None:
    """An account has its group, and all groups in which it is."""
    found = pwd.getpwuid(os.geteuid())
    assert launcher._account(found.pw_uid) == (found.pw_uid, found.pw_gid, os.getgrouplist(found.pw_name, found.pw_gid))


def test_an_unknown_user_is_named() -> None:
    """The answer that there is none is one: nothing is asked again."""
    with pytest.raises(ValueError, match="found the user 54321, expected one that getent passwd knows"):
        launcher._account(54321)


def test_a_directory_of_users_that_does_not_answer_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that asks is ended, and the launcher says why the command does not begin."""
    forked = []
    monkeypatch.setattr(launcher, "_found", lambda uid: signal.pause())
    monkeypatch.setattr(launcher, "ANSWER_S", 0.0)
    monkeypatch.setattr(launcher.os, "waitpid", lambda pid, _, wait=os.waitpid: forked.append(wait(pid, 0)))
    with pytest.raises(ValueError, match="found no answer of the directory of users about 1000 in 3 times 0 s"):
        launcher._account(1000)
    assert [os.WTERMSIG(status) for _, status in forked] == [signal.SIGKILL] * 3
