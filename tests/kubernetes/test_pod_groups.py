"""PodGroups: gangs whose room is held by asks without pods."""

from costs import is_linear
from dialogue import Dialogue
from msgspec import convert, structs
from objects import changed, group, node, pod

from ykactor.kubernetes import model
from ykactor.kubernetes.messages import Heard, NotWritten, SetGroupCondition, Tell
from ykactor.kubernetes.pods import key_of
from ykactor.wire.si import messages as si

IN_GROUP = {"schedulingGroup": {"podGroupName": "pg"}}


def members(count: int) -> list:
    return [pod(f"m{number}", created=number, **IN_GROUP) for number in range(count)]


def room(member) -> si.Allocation:
    return si.Allocation(allocation_key=f"{key_of(member)}-room", application_id="team.pg", node_id="n1")


def test_nothing_is_asked_for_before_enough_members_are_there() -> None:
    """The group and its members say how many are missing, once."""
    first, second = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), first)
    assert {"group pg: 1 of 2 pods are there", "condition of m0 SchedulingSkipped"} <= set(dialogue.register())
    assert dialogue.see(first) == []
    assert dialogue.see(second) == [
        "application team.pg",
        "placeholder m0-room",
        "placeholder m1-room",
    ]


def test_the_room_of_very_large_members_is_a_number_that_the_daemon_reads() -> None:
    """They can never run, and what is told together with them has its effect."""
    large = [pod(f"m{number}", cpu="6e15", **IN_GROUP) for number in range(2)]
    dialogue = Dialogue(node("n1"), group("pg", 2), *large)
    dialogue.register()
    requests = [effect.request for effect in dialogue.effects if isinstance(effect, Tell)]
    (new,) = [entry for request in requests if isinstance(request, si.ApplicationRequest) for entry in request.new]
    assert new.placeholder_ask == {"vcore": 2**63 - 1, "pods": 2}


def test_members_are_asked_for_when_all_have_room() -> None:
    """The end of a placeholder is confirmed at once, as nothing runs there."""
    both = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), *both)
    dialogue.register()
    assert dialogue.hear(si.AllocationResponse(new=[room(each) for each in both])) == []
    assert dialogue.updated("team.pg", "Running") == ["ask m0", "ask m1", "group pg: "]
    ended = si.AllocationRelease(
        allocation_key=room(both[0]).allocation_key, application_id="team.pg", termination_type="PLACEHOLDER_REPLACED"
    )
    assert dialogue.hear(si.AllocationResponse(released=[ended])) == ["release m0-room PLACEHOLDER_REPLACED"]
    assert dialogue.place(both[0], "n1") == ["bind m0 to n1"]


def test_a_member_that_goes_before_the_start_lets_the_gang_begin_anew() -> None:
    """Else fewer than all would run."""
    three = members(3)
    dialogue = Dialogue(node("n1"), group("pg", 2), *three)
    dialogue.register()
    assert dialogue.lose(three[0]) == ["remove team.pg"]
    assert dialogue.updated("team.pg", "Running") == []  # it was on its way
    assert dialogue.confirm() == ["application team.pg", "placeholder m1-room", "placeholder m2-room"]
    assert dialogue.lose(three[1])[0] == "remove team.pg"
    assert dialogue.confirm()[0] == "group pg: 1 of 2 pods are there"


def test_pods_of_an_earlier_life_of_the_group_are_no_members() -> None:
    """They have ended, and are deleted some time."""
    old = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), *(changed(each, node="n1") for each in old))
    dialogue.register()
    dialogue.see(*(changed(each, node="n1", phase="Succeeded") for each in old))
    dialogue.updated("team.pg", "Completed")
    assert "application team.pg" in dialogue.see(*(pod(f"new{number}", **IN_GROUP) for number in range(2)))
    assert dialogue.lose(old[0]) == []
    assert dialogue.updated("team.pg", "Running") == ["ask new0", "ask new1"]


def test_a_large_group_is_looked_at_once_in_a_report() -> None:
    """Not once for each of its members: that would take longer than a Lease can wait."""

    def large(count: int) -> Dialogue:
        return Dialogue(node("n1"), group("pg", count + 1), *(pod(f"m{number}", **IN_GROUP) for number in range(count)))

    assert is_linear(Dialogue.register, large, 100, repeat=1)


def test_room_on_a_node_that_goes_is_asked_for_again() -> None:
    """Else the group would wait for ever."""
    here = node("n1")
    dialogue = Dialogue(here, node("n2"), group("pg", 2), *members(2))
    dialogue.register()
    assert dialogue.lose(here) == ["DECOMISSION n1"]
    lost = si.AllocationRelease(
        allocation_key=next(iter(dialogue.state.book.rooms)), application_id="team.pg", termination_type="STOPPED_BY_RM"
    )
    assert dialogue.hear(si.AllocationResponse(released=[lost])) == ["placeholder m0-room"]


def test_a_group_that_runs_in_part_is_an_ordinary_application() -> None:
    """After a restart."""
    first, second = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), changed(first, node="n1"), second)
    assert dialogue.register()[1:4] == ["application team.pg", "ask m0 on n1", "ask m1"]


def test_a_group_may_come_after_its_pods() -> None:
    both = members(2)
    dialogue = Dialogue(node("n1"), *both)
    assert "application team.pg" not in dialogue.register()
    assert "application team.pg" in dialogue.see(group("pg", 2))


def test_why_a_group_waits_is_said_on_the_group() -> None:
    """The group has the reason; its members say that they wait for it."""
    both = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), *both)
    dialogue.register()
    entry = si.SchedulingStateEntry(
        allocation_key=room(both[0]).allocation_key, application_id="team.pg", state="FAILED", cause="NODES", reason="no room"
    )
    said = dialogue.play(Heard(si.SchedulingStateResponse(entries=[entry])))
    assert [word for word in said if not word.startswith("event")] == [
        "group pg: no room",
        "condition of m0 SchedulingSkipped",
        "condition of m1 SchedulingSkipped",
    ]


def test_a_group_waits_for_a_configuration_that_is_on_its_way() -> None:
    """A group waits for the configuration, because its queue may be a new one."""
    dialogue = Dialogue(node("n1"), group("pg", 2))
    dialogue.register()
    dialogue.state.book.configuration.in_flight = 1
    assert "application team.pg" not in dialogue.see(*members(2))
    assert "application team.pg" in dialogue.hear(si.Ack(id=""))


def with_condition(found: model.PodGroup, status: str, message: str) -> model.PodGroup:
    conditions = [{"type": "PodGroupScheduled", "status": status, "message": message}]
    return structs.replace(found, status=convert({"conditions": conditions}, model.PodGroupStatus))


def test_what_a_group_says_already_is_not_written_again() -> None:
    """Also by a process that takes over; when its pods have room it does not say any more that they wait."""
    first, second = members(2)
    waiting = with_condition(group("pg", 2), "False", "1 of 2 pods are there")
    dialogue = Dialogue(node("n1"), waiting, first)
    assert [word for word in dialogue.register() if word.startswith("group")] == []
    dialogue = Dialogue(node("n1"), waiting, changed(first, node="n1"), second)
    assert [word for word in dialogue.register() if word.startswith("group")] == ["group pg: "]
    dialogue = Dialogue(node("n1"), with_condition(waiting, "True", ""), changed(first, node="n1"), second)
    assert [word for word in dialogue.register() if word.startswith("group")] == []


def test_the_members_of_a_group_have_room_where_they_may_run() -> None:
    """Placeholders of a group have the classes, sizes, priorities and groups of the members."""
    picky = {"nodeSelector": {"disk": "ssd"}, "priority": 7}
    both = [pod(f"m{number}", created=number, cpu="2", **IN_GROUP, **picky) for number in range(2)]
    dialogue = Dialogue(node("n1"), group("pg", 2), *both)
    dialogue.register()
    requests = [effect.request for effect in dialogue.effects if isinstance(effect, Tell)]
    (new,) = [entry for request in requests if isinstance(request, si.ApplicationRequest) for entry in request.new]
    rooms = [entry for request in requests if isinstance(request, si.AllocationRequest) for entry in request.allocations]
    assert (dict(new.placeholder_ask or {}), new.gang_scheduling_style) == ({"vcore": 4000, "pods": 2}, "Soft")
    dialogue.updated("team.pg", "Running")
    asks = [
        entry
        for effect in dialogue.effects
        if isinstance(effect, Tell) and isinstance(effect.request, si.AllocationRequest)
        for entry in effect.request.allocations
    ][2:]
    for room_, ask in zip(rooms, asks, strict=True):
        assert room_ == structs.replace(ask, allocation_key=f"{ask.allocation_key}-room", placeholder=True, originator=False)
        assert room_.allocation_tags["ykactor.io/predicate"] == dialogue.state.book.pods[ask.allocation_key].class_name


def test_a_group_without_a_gang_and_one_that_has_more_members_than_it_needs() -> None:
    """The one starts each pod by itself; those that the other does not need are asked for when it has started."""
    basic = structs.replace(group("pg", 2), spec=convert({"schedulingPolicy": {"basic": {}}}, model.PodGroupSpec))
    three = members(3)
    assert "placeholder m0-room" in Dialogue(node("n1"), basic, three[0]).register()
    dialogue = Dialogue(node("n1"), group("pg", 2), *three)
    assert [word for word in dialogue.register() if "room" in word] == ["placeholder m0-room", "placeholder m1-room"]
    assert dialogue.updated("team.pg", "Running") == ["ask m0", "ask m1", "ask m2", "group pg: "]


def test_a_group_whose_condition_was_not_written_says_it_again() -> None:
    """The process has stopped to lead before it could, and leads again; and when it waits no longer."""
    first, second = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), first)
    assert "group pg: 1 of 2 pods are there" in dialogue.register()
    dialogue.state.stop()
    assert "group pg: 1 of 2 pods are there" in dialogue.register()
    dialogue.see(second)
    assert "group pg: " in dialogue.updated("team.pg", "Running")
    dialogue.state.stop()
    assert "group pg: " in dialogue.register()


def test_a_group_that_refuses_a_condition_is_told_it_again_when_it_has_changed() -> None:
    """Another client has written at the same moment."""
    first, _ = members(2)
    dialogue = Dialogue(node("n1"), group("pg", 2), first)
    dialogue.register()
    (write,) = [effect for effect in dialogue.effects if isinstance(effect, SetGroupCondition)]
    assert dialogue.play(NotWritten(write, "409")) == []
    assert dialogue.see(group("pg", 2)) == ["group pg: 1 of 2 pods are there"]
