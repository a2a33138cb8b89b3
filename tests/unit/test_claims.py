"""Identities act for users: the groups that count, and applications that an identity may not submit."""

import pytest

from ykactor.access.model import ANY, ANYBODY, Identity, Names, Role
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import ApplicationRejected
from ykactor.core.messages.submissions import AddApplication, RefuseEntry, RemoveApplication, Submission
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import finished
from ykactor.surfaces.admission.submissions import of_administrator, permitted
from ykactor.wire.si.lengths import TEXT_MAX
from ykactor.wire.si.protocol_error import ProtocolError

CI = Identity(name="ci", roles=frozenset([Role.RM]), users=Names.of(["alice", "bob"]), groups=Names.of(["dev"]))
FORCED = {"application.create.force": "true"}


def spec(user: str, *groups: str, forced: bool = False, unknown: bool = False) -> AddApplication:
    return AddApplication(ApplicationID("app-1"), "root.a", user, groups, FORCED if forced else {}, user_is_unknown=unknown)


def kept(identity: Identity, submissions: list[Submission]) -> list[Submission]:
    found, reason = finished(permitted(identity, submissions))
    assert reason == ""  # no tags are refused
    return found


def refusal(identity: Identity, new: AddApplication) -> str:
    (found,) = kept(identity, [new])
    assert isinstance(found, RefuseEntry)
    assert isinstance(found.rejected, ApplicationRejected)
    assert found.rejected.application_id == new.application_id
    return found.rejected.reason


@pytest.mark.parametrize(
    ("new", "who"),
    [
        (spec("alice", "dev"), UserGroups("alice", ("dev",))),
        (spec("alice"), UserGroups("alice", ("alice",))),
        (spec("bob", "dev", "bob"), UserGroups("bob", ("dev", "bob"))),
    ],
)
def test_a_partition_gets_explicit_groups(new: AddApplication, who: UserGroups) -> None:
    """SE-65: so nothing that somebody else has submitted changes who an application belongs to."""
    users = Users(Changed())
    users.resolve(0, spec(new.user, "admins"))
    (found,) = kept(CI, [new])
    assert isinstance(found, AddApplication)
    assert users.resolve(1, found) == who


@pytest.mark.parametrize("memory", [(), ("admins",)])
def test_who_is_unknown(memory: tuple[str, ...]) -> None:
    """SE-65: whom the operating system does not know has not the groups of an earlier application either."""
    users = Users(Changed())
    users.resolve(0, spec("alice", *memory))
    assert refusal(CI, spec("alice", unknown=True)) == "unknown user alice"
    forcing = Identity(name="ci", roles=frozenset([Role.RM]), users=Names.of(["alice"]), may_force=True)
    (found,) = kept(forcing, [spec("alice", forced=True, unknown=True)])
    assert isinstance(found, AddApplication)
    assert users.resolve(1, found) == UserGroups("alice", ("nogroup",))


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (spec("eve", "dev"), "ci may not submit for user 'eve'"),
        (spec("eve"), "ci may not submit for user 'eve'"),
        (spec("alice", "dev", "admins"), "ci may not submit for user 'alice' with groups 'admins'"),
        (spec("alice", "bob"), "ci may not submit for user 'alice' with groups 'bob'"),
        (spec("alice", "dev", forced=True), "ci may not force the creation of applications"),
        (spec("", forced=True), "ci may not force the creation of applications"),
        (spec(""), "empty user cannot resolve: ugi names no user"),
        (spec("b b", "dev"), "invalid username, it contains invalid characters"),
    ],
)
def test_what_may_not_be_submitted(new: AddApplication, reason: str) -> None:
    """SE-23, SE-24, SE-65: the application becomes its own rejection, with the reason."""
    assert refusal(CI, new) == reason


def test_neighbours_stay() -> None:
    """SE-65: everything else of the message goes on, in its order."""
    removal: Submission = RemoveApplication(ApplicationID("app-0"))
    first, refused, removed, last = kept(CI, [spec("alice", "dev"), spec("eve"), removal, spec("bob", "dev")])
    assert [type(first), type(refused), removed, type(last)] == [AddApplication, RefuseEntry, removal, AddApplication]


def test_many_applications_are_asked_about_with_pauses() -> None:
    """Each gets its own answer, in their order."""
    many: list[Submission] = [spec(user, "dev") for user in ("alice", "eve", "bob") * 500]
    assert [type(each) for each in kept(CI, many)] == [AddApplication, RefuseEntry, AddApplication] * 500
    assert list(permitted(CI, many)) == [500, 500, 500]


def test_long_reasons_are_cut() -> None:
    """A rejection has no more text than other refusals, however many groups there are."""
    assert len(refusal(CI, spec("alice", *(f"group-{number}" for number in range(1000))))) <= TEXT_MAX + len("...")


def test_without_an_access_file() -> None:
    """SE-1: the partition decides alone, with the groups that it remembers (QU-94)."""
    everything = [spec("eve"), spec("", forced=True), spec("x", unknown=True)]
    assert kept(ANYBODY, everything) == everything
    assert of_administrator(ANYBODY, UserGroups("eve", ())) == UserGroups("eve", ())


def test_administrators() -> None:
    """SE-65: who ends or moves an application has explicit groups too, and is one whom the identity may name."""
    assert of_administrator(CI, UserGroups("alice", ())) == UserGroups("alice", ("alice",))
    assert of_administrator(CI, UserGroups("alice", ("dev",))) == UserGroups("alice", ("dev",))
    for who in (UserGroups("eve", ("dev",)), UserGroups("alice", ("admins",))):
        with pytest.raises(ProtocolError, match=f"ci may not act for user '{who.user}' with groups") as error:
            of_administrator(CI, who)
        assert (error.value.code, error.value.path) == ("NOT_PERMITTED", "ugi")
    anyone = Identity(name="ci", roles=frozenset([Role.RM]), users=ANY, groups=Names.of(["dev"]))
    with pytest.raises(ProtocolError):  # its own group would be any group
        of_administrator(anyone, UserGroups("admins", ()))
