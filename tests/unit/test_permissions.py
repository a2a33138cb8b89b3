"""The table of permissions: every message has an entry, and every entry says what it must."""

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from ykactor.access import permissions
from ykactor.access.model import ANY, ANYBODY, Identity, Names, Role
from ykactor.access.permissions import Asked, Each, EachPartition, Gate, Refusal, check, check_application
from ykactor.core.config.access import UserGroups
from ykactor.wire.si import messages as si

#: Whatever a client can send.
MESSAGES = {*get_args(si.Request), *get_args(si.OperatorRequest), *get_args(si.FeedRequest)}
RM, OPERATOR, READER = Role.RM, Role.OPERATOR, Role.READER


def identity(*roles: Role, **fields: Any) -> Identity:
    return Identity(name="ci", roles=frozenset(roles), **fields)


def rm(**fields: Any) -> Identity:
    return identity(RM, **{"rm_ids": Names.of(["ci"]), "users": Names.of(["ci"]), **fields})


def asked(need: Any) -> Iterator[Asked]:
    """An entry and those of the parts in it."""
    match need:
        case Asked():
            yield need
            for inner in need.needs.values():
                yield from asked(inner)
        case EachPartition():
            yield from asked(need.asked)
        case Each() | Gate():
            yield from asked(need.need)


ENTRIES = [
    pytest.param(entry, id=f"{kind.__name__}-{role}-{entry.kind.__name__}")
    for kind, by_role in permissions.TABLE.items()
    for role, whole in by_role.items()
    for entry in asked(whole)
]


def test_every_message_has_an_entry() -> None:
    """SE-20: a new message is refused to all until it has one, and this test fails until it has."""
    assert set(permissions.TABLE) == MESSAGES
    assert all(permissions.TABLE.values())


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_field_has_an_entry(entry: Asked) -> None:
    """SE-20: of each message and each part of it; a new field is in ``free`` only if somebody has thought of it."""
    fields = {field.name for field in structs.fields(entry.kind)}
    assert entry.free | set(entry.needs) == fields
    assert not entry.free & set(entry.needs)


@pytest.mark.parametrize("entry", [param for param in ENTRIES if param.values[0].kind in (si.Allocation, si.AllocationRelease)])
def test_only_partitions_are_asked_of_long_lists(entry: Asked) -> None:
    """``EachPartition`` relies on entries that need nothing but the partition."""
    assert set(entry.needs) == {"partition_name"}


def example(kind: type[Any]) -> Any:
    """A message with what is required only."""
    values = {field.encode_name: "1" for field in structs.fields(kind) if field.required}
    return msgspec.convert({"type": kind.__name__, **values}, kind, strict=False)


@pytest.mark.parametrize("kind", sorted(MESSAGES, key=lambda kind: kind.__name__))
@pytest.mark.parametrize("role", Role)
def test_the_matrix(kind: type[Any], role: Role) -> None:
    """SE-20: a message passes only through the door of a role that has an entry for it, and for who has that role."""
    message = example(kind)
    may = role in permissions.TABLE[kind]
    assert (check(ANYBODY, role, message) is None) is may
    without = structs.replace(ANYBODY, name="ci", roles=frozenset(Role) - {role})
    assert check(without, role, message) == Refusal("", f"ci does not have the role {role}")


def test_what_has_no_entry() -> None:
    """SE-20: what only the daemon sends, for example."""
    assert check(ANYBODY, RM, si.Ack(id="1")) == Refusal("", "Ack is not a message for the role rm")
    assert check(ANYBODY, Role.METRICS, si.Subscribe()) == Refusal("", "Subscribe is not a message for the role metrics")


#: Who may send less than others of the same role.
LESS = [
    identity(*Role, rm_ids=ANY, queues=frozenset(["root.a"])),
    identity(*Role, rm_ids=ANY, partitions=Names.of(["default"])),
    identity(*Role, rm_ids=ANY),
    identity(RM, OPERATOR, rm_ids=ANY),
    ANYBODY,
]


@pytest.mark.parametrize("who", LESS)
@pytest.mark.parametrize("role", Role)
def test_what_is_listed_is_what_passes(who: Identity, role: Role) -> None:
    """SE-20: the messages of an identity are those that ``check`` does not refuse it with content that it may name."""
    named = [kind.__name__ for kind in permissions.TABLE if check(who, role, harmless(kind)) is None]
    assert permissions.messages_of(who, role) == named


def harmless(kind: type[Any]) -> Any:
    """A message with content that everybody in ``LESS`` may name."""
    message = example(kind)
    if kind is si.RegisterResourceManagerRequest:
        return structs.replace(message, rm_id="ci")
    return structs.replace(message, queue_name="root.a") if kind in (si.HoldQueue, si.MoveApplication) else message


@pytest.mark.parametrize("question", [si.ReadConfiguration(), si.CheckHealth()])
def test_answers_about_everything(question: Any) -> None:
    """SE-88: only for readers that are limited neither to partitions nor to queues."""
    assert check(identity(READER), READER, question) is None
    for limited in (identity(READER, queues=frozenset(["root.a"])), identity(READER, partitions=Names.of(["default"]))):
        refusal = check(limited, READER, question)
        assert refusal == Refusal("", "ci is limited to partitions or queues, and the answer is about all of them")


def test_registering() -> None:
    """SE-21, SE-25: the name, and a configuration if there is one."""
    request = si.RegisterResourceManagerRequest
    assert check(rm(), RM, request(rm_id="ci")) is None
    assert check(rm(), RM, request(rm_id="other")) == Refusal("rmID", "ci may not register as 'other', expected one of: ci")
    configuring = [request(rm_id="ci", config="x"), request(rm_id="ci", extra_config={"a": "b"})]
    assert [check(rm(), RM, message).path for message in configuring] == ["config", "extraConfig"]
    assert [check(rm(configure=True), RM, message) for message in configuring] == [None, None]


@pytest.mark.parametrize("role", [RM, OPERATOR])
def test_configuring(role: Role) -> None:
    """SE-25: needed also for an empty configuration, which means the built-in one."""
    assert check(identity(role), role, si.UpdateConfigurationRequest()) == Refusal(
        "config", "ci may not change the configuration"
    )
    assert check(identity(role, configure=True), role, si.UpdateConfigurationRequest(config="x")) is None


GPU = {"si/node-partition": "gpu"}
IN_GPU = [
    (si.NodeRequest(nodes=[si.NodeInfo(node_id="a", action="CREATE"), si.NodeInfo(node_id="b", action="CREATE", attributes=GPU)]),
     "nodes[1].attributes.si/node-partition"),
    (si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="a", partition_name="gpu")]), "new[0].partitionName"),
    (si.ApplicationRequest(records=[si.TaskRecord(application_id="a", allocation_key="t", state="Lost", partition_name="gpu")]),
     "records[0].partitionName"),
    (si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id="a", partition_name="gpu")]),
     "remove[0].partitionName"),
    (si.AllocationRequest(
        allocations=[si.Allocation(allocation_key="a"), si.Allocation(allocation_key="b", partition_name="gpu")]),
     "allocations[1].partitionName"),
    (si.AllocationRequest(
        releases=si.AllocationReleasesRequest(allocations_to_release=[si.AllocationRelease(partition_name="gpu")])),
     "releases.allocationsToRelease[0].partitionName"),
    (si.TerminateApplication(application_id="a", partition_name="gpu"), "partitionName"),
    (si.MoveApplication(application_id="a", queue_name="root.a", partition_name="gpu"), "partitionName"),
    (si.PredicatesResponse(partition_name="gpu"), "partitionName"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "path"), IN_GPU, ids=[type(message).__name__ for message, _ in IN_GPU])
def test_partitions(message: Any, path: str) -> None:
    """SE-22: wherever a message names a partition, also in one entry of many; the path says where."""
    refusal = Refusal(path, "ci may not act in partition 'gpu'")
    assert check(rm(partitions=Names.of(["default"])), RM, message) == refusal
    assert check(rm(partitions=Names.of(["default", "gpu"])), RM, message) is None
    assert check(rm(), RM, message) is None


def test_the_partition_that_is_not_named() -> None:
    """SE-22: it is default."""
    request = si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="a")])
    refusal = check(rm(partitions=Names.of(["gpu"])), RM, request)
    assert refusal == Refusal("new[0].partitionName", "ci may not act in partition 'default'")


def administration(**fields: Any) -> list[Any]:
    return [
        si.TerminateApplication(application_id="a", **fields),
        si.MoveApplication(application_id="a", queue_name="root.a", **fields),
    ]


def test_administrators_of_resource_managers() -> None:
    """SE-23: a resource manager acts for itself, or for a user that it may claim."""
    for message in administration():
        assert check(rm(), RM, message) is None
    for message in administration(ugi=si.UserGroupInformation(user="ci")):
        assert check(rm(), RM, message) is None
    for ugi in (si.UserGroupInformation(user="root"), si.UserGroupInformation(user="ci", groups=["ops"])):
        for message in administration(ugi=ugi):
            assert check(rm(), RM, message).path == "ugi"


def test_operators_act_for_themselves() -> None:
    """SE-23: an operator names no user: it is who it is."""
    for message in administration(ugi=si.UserGroupInformation(user="ci")):
        assert check(identity(OPERATOR), OPERATOR, message) == Refusal("ugi", "ci acts for itself, expected nothing")
    for message in administration():
        assert check(identity(OPERATOR), OPERATOR, message) is None


@pytest.mark.parametrize(
    ("queue", "may"), [("root.a", True), ("ROOT.A.b.", True), ("root", False), ("root.ab", False), ("a", False)]
)
def test_moving_into_a_queue(queue: str, may: bool) -> None:
    """SE-26: an operator moves applications into its queues only; queues are compared without case."""
    limited = identity(OPERATOR, queues=frozenset({"root.a"}))
    refusal = check(limited, OPERATOR, si.MoveApplication(application_id="a", queue_name=queue))
    assert refusal == (None if may else Refusal("queueName", f"ci may not operate queue '{queue}'"))
    assert check(limited, OPERATOR, si.HoldQueue(queue_name=queue)) == refusal


OPERATIONS = [
    si.HoldApplication(application_id="a"),
    si.HoldQueue(queue_name="root.a", held=False),
    si.CancelAllocation(application_id="a", allocation_key="t"),
    si.SetPriority(application_id="a", priority=1),
    si.ExpectNoAllocations(allocation_keys=["t"]),
]


@pytest.mark.parametrize("message", OPERATIONS, ids=lambda message: type(message).__name__)
def test_operations_in_partitions(message: Any) -> None:
    """SE-22, OP-14: an operator acts in its partitions only."""
    assert check(identity(OPERATOR), OPERATOR, message) is None
    refusal = check(identity(OPERATOR, partitions=Names.of(["gpu"])), OPERATOR, message)
    assert refusal == Refusal("partitionName", "ci may not act in partition 'default'")


def drain(action: str = "DRAIN_NODE", **fields: Any) -> si.NodeRequest:
    return si.NodeRequest(nodes=[si.NodeInfo(node_id="a", action=action, **fields)])


@pytest.mark.parametrize("action", ["CREATE", "CREATE_DRAIN", "UPDATE", "DECOMISSION", "drain_node", ""])
def test_what_an_operator_may_not_do_with_a_node(action: str) -> None:
    """SE-20: it drains nodes and takes this back, and nothing else."""
    assert check(identity(OPERATOR), OPERATOR, drain(action)).path == "nodes[0].action"
    assert check(rm(), RM, drain(action)) is None


def test_draining() -> None:
    """SE-20, SE-22, SE-26: not with a capacity, not in another partition, and not if it is limited to queues."""
    for action in ("DRAIN_NODE", "DRAIN_TO_SCHEDULABLE"):
        assert check(identity(OPERATOR), OPERATOR, drain(action)) is None
    refusals = {
        "nodes[0].schedulableResource": check(identity(OPERATOR), OPERATOR, drain(schedulable_resource={})),
        "nodes[0].attributes.si/node-partition": check(
            identity(OPERATOR, partitions=Names.of(["default"])), OPERATOR, drain(attributes=GPU)
        ),
        "nodes": check(identity(OPERATOR, queues=frozenset({"root"})), OPERATOR, drain()),
    }
    assert {path: refusal.path for path, refusal in refusals.items()} == {path: path for path in refusals}


def test_ending_a_registration() -> None:
    """SE-71: it is for all queues, so who is limited to some may not; of partitions the turn asks (SE-28)."""
    release = si.ReleaseResourceManager(rm_id="rm-1")
    assert check(identity(OPERATOR), OPERATOR, release) is None
    assert check(identity(OPERATOR, partitions=Names.of(["default"])), OPERATOR, release) is None
    refusal = check(identity(OPERATOR, queues=frozenset({"root"})), OPERATOR, release)
    assert refusal is not None
    assert (refusal.path, "and this affects others too" in refusal.message) == ("rmID", True)


def test_reloading() -> None:
    """SE-71: also an operator that may not send a configuration, but none that is limited: the answer is about all."""
    assert check(identity(OPERATOR), OPERATOR, si.ReloadConfiguration()) is None
    for limited in (identity(OPERATOR, queues=frozenset({"root.a"})), identity(OPERATOR, partitions=Names.of(["default"]))):
        assert check(limited, OPERATOR, si.ReloadConfiguration()) is not None


def test_subscribing() -> None:
    """SE-26: what does not exist and what must not be seen are refused with the same sentence."""
    limited = identity(READER, queues=frozenset({"root.a"}), partitions=Names.of(["default"]))
    assert check(limited, READER, si.Subscribe()) is None
    assert check(limited, READER, si.Subscribe(queues=["root.a", "Root.A.b."], partitions=["Default"])) is None
    sentence = "found a name that does not exist or that you may not see"
    assert check(limited, READER, si.Subscribe(queues=["root.a", "root.b"])) == Refusal("queues[1]", sentence)
    assert check(limited, READER, si.Subscribe(queues=["root"])) == Refusal("queues[0]", sentence)
    assert check(limited, READER, si.Subscribe(partitions=["gpu"])) == Refusal("partitions[0]", sentence)
    assert check(identity(READER), READER, si.Subscribe(queues=["anything"], partitions=["gpu"])) is None


def test_applications() -> None:
    """SE-23, SE-24: asked in the turn, of the resolved groups, and of the tag that forces the creation."""
    forced = {"application.create.force": "true"}
    assert check_application(rm(), UserGroups("ci", ("ci",)), {}) is None
    assert check_application(rm(), UserGroups("bob", ("dev", "ops")), {}) == "ci may not submit for user 'bob'"
    told = check_application(rm(), UserGroups("ci", ("ci", "dev", "ops")), {})
    assert told == "ci may not submit for user 'ci' with groups 'dev', 'ops'"
    assert check_application(rm(), UserGroups("ci", ("ci",)), forced) == "ci may not force the creation of applications"
    assert check_application(rm(may_force=True), UserGroups("nobody", ("nogroup",)), forced) is None
    assert check_application(rm(may_force=True), UserGroups("bob", ("bob",)), forced) is not None
    assert check_application(rm(users=ANY, groups=ANY), UserGroups("bob", ("ops",)), {}) is None
