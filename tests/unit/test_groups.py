"""The groups of users: asked in threads, remembered on a virtual clock, shared by who asks together."""

import grp
import os
import pwd
import threading
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from ykactor.core.messages.submissions import AddApplication, RemoveApplication
from ykactor.surfaces.daemon import groups as groups_module
from ykactor.surfaces.daemon.groups import FAILED_S, KNOWN_S, GroupResolver, os_groups


class NameService:
    """Knows ``alice``; ``blocked`` holds its answers back, ``broken`` makes it fail."""

    def __init__(self):
        self.asked = []
        self.is_asked = threading.Event()
        self.answers = {"alice": ("staff", "dev")}
        self.broken = False
        self.free = threading.Event()
        self.free.set()

    def __call__(self, user):
        self.asked.append(user)
        self.is_asked.set()
        self.free.wait(180)
        if self.broken:
            raise OSError("directory is down")
        return self.answers.get(user)


@pytest.fixture
def service():
    return NameService()


async def test_an_answer_counts_for_300_seconds(service, autojump_clock):
    """QU-94: within 300 s nobody is asked again, then the new answer counts."""
    resolver = GroupResolver(service)
    assert await resolver.groups_of("alice") == ("staff", "dev")
    service.answers["alice"] = ("dev",)
    await trio.sleep(KNOWN_S - 1)
    assert await resolver.groups_of("alice") == ("staff", "dev")
    assert service.asked == ["alice"]
    await trio.sleep(1)
    assert await resolver.groups_of("alice") == ("dev",)
    assert service.asked == ["alice"] * 2


async def test_many_applications_leave_others_their_turns(service):
    """All get the groups, in their order, and other tasks run meanwhile; what is no application stays as it is."""
    resolver, turns = GroupResolver(service), []

    async def other():
        while True:
            turns.append(len(turns))
            await trio.lowlevel.checkpoint()

    await resolver.groups_of("alice")
    removal = RemoveApplication("app-0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        found = await resolver.all_completed([*(AddApplication(f"app-{number}", "", "alice") for number in range(1600)), removal])
        nursery.cancel_scope.cancel()
    assert len(turns) >= 2
    assert found == [*(AddApplication(f"app-{number}", "", "alice", ("staff", "dev")) for number in range(1600)), removal]


@pytest.mark.parametrize("user", ["nobody-knows", "alice"])
async def test_a_failure_counts_for_30_seconds(service, autojump_clock, user, caplog):
    """QU-94: an unknown user, or one whose name service is down, stays unknown for 30 s without asking."""
    resolver = GroupResolver(service)
    service.broken = user == "alice"
    assert await resolver.groups_of(user) is None
    service.broken = False
    service.answers[user] = ("dev",)
    await trio.sleep(FAILED_S - 1)
    assert await resolver.groups_of(user) is None
    assert service.asked == [user]
    await trio.sleep(1)
    assert await resolver.groups_of(user) == ("dev",)
    expected = [{"user": "alice", "reason": "directory is down"}] if user == "alice" else []
    assert [record.keys for record in caplog.records] == expected


async def test_who_asks_together_shares_a_lookup(service):
    """While a name service takes its time, further questions for this user cost nothing; other users do not wait for it."""
    resolver = GroupResolver(service)
    service.free.clear()
    found = []

    async def ask(user):
        found.append(await resolver.groups_of(user))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, "alice")
        nursery.start_soon(ask, "bob")
        await trio.testing.wait_all_tasks_blocked()
        service.free.set()
    assert sorted(service.asked) == ["alice", "bob"]
    assert found.count(("staff", "dev")) == 5
    assert found.count(None) == 1


async def test_whoever_asks_may_leave(service):
    """The one whose lookup the others wait for is cancelled: it leaves at once, and one of them asks again for all."""
    resolver = GroupResolver(service)
    service.free.clear()
    found = []

    async def ask():
        found.append(await resolver.groups_of("alice"))

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as impatient:
            async with trio.open_nursery() as first:
                first.start_soon(ask)
                await trio.to_thread.run_sync(service.is_asked.wait, 180)
                for _ in range(3):
                    nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                impatient.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert found == []
        service.free.set()
    assert found == [("staff", "dev")] * 3
    assert service.asked == ["alice"] * 2


async def test_what_is_remembered_is_bounded(service, monkeypatch):
    """A resource manager that invents users makes the oldest answers go, not the memory."""
    monkeypatch.setattr(groups_module, "ANSWERS_MAX", 2)
    resolver = GroupResolver(service)
    for user in ("alice", "b", "alice", "c", "alice", "b"):
        await resolver.groups_of(user)
    assert service.asked == ["alice", "b", "c", "alice", "b"]


async def test_lookups_at_the_same_time_are_bounded(service, monkeypatch):
    """Many users at once do not take all worker threads."""
    resolver = GroupResolver(service)
    service.free.clear()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(resolver.groups_of, f"user-{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert len(service.asked) <= groups_module.LOOKUPS_MAX
        service.free.set()
    assert len(service.asked) == 20


def test_order_and_names_of_the_operating_systems_groups(monkeypatch):
    """QU-93: the primary group first, then the others, each once; a gid without a name is its number."""
    monkeypatch.setattr(pwd, "getpwnam", lambda user: SimpleNamespace(pw_gid=100))
    monkeypatch.setattr(os, "getgrouplist", lambda user, gid: [7, 100, 4242])
    known = {7: "dev", 100: "staff"}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=known[gid]))
    assert os_groups("alice") == ("staff", "dev", "4242")


@pytest.mark.parametrize("user", ["", "no such user", "a\0b", "\ud800"])
def test_unknown_users_of_the_operating_system(user):
    """A name that nobody has, or that cannot be a name, is unknown."""
    assert os_groups(user) is None


async def test_a_real_lookup():
    """Whoever runs this is in its own primary group, first of all."""
    try:
        me = pwd.getpwuid(os.getuid())
    except KeyError:
        pytest.skip("the user who runs this has no name")
    found = await GroupResolver().groups_of(me.pw_name)
    assert found is not None
    assert found[0] == groups_module._group_name(me.pw_gid)
    assert set(found) == {groups_module._group_name(gid) for gid in os.getgrouplist(me.pw_name, me.pw_gid)}
