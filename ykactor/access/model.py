"""Identities: who there is, how each is shown, and what each may do.

``file`` makes them of the access file; ``access`` finds one, ``permissions`` and the turn of a partition ask it. Nothing
here needs the libraries that verify proofs: without an access file the daemon does without them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from msgspec import Struct

from ykactor.access.limits import IdentityLimits
from ykactor.core.placement.users import NOBODY
from ykactor.core.values.names import ANY, Names
from ykactor.core.values.times import NEVER

#: The user that the kernel shows for one that has no number here; everybody of another user namespace looks like it (SE-6).
OVERFLOW_UID = 65534


class Role(StrEnum):
    """The purpose of a connection; each has its own path."""

    RM = "rm"
    OPERATOR = "operator"
    READER = "reader"
    METRICS = "metrics"
    REPLICA = "replica"


def with_implied(roles: Iterable[Role]) -> frozenset[Role]:
    """The roles that the access file gives, and those that come with them: who operates sees what it acts on (SE-20)."""
    given = frozenset(roles)
    return given | {Role.READER} if Role.OPERATOR in given else given


class UserProof(Struct, frozen=True):
    """The user at the other end of a Unix socket. The name was resolved when the access file was read (SE-6)."""

    user: str
    uid: int
    expires_ns: int = NEVER


class CertificateProof(Struct, frozen=True):
    """A client certificate that has exactly this name, with its type: ``URI:spiffe://corp/ci`` (SE-7)."""

    name: str
    expires_ns: int = NEVER


class JwtProof(Struct, frozen=True):
    """A JWT whose claims have these values (SE-9)."""

    claims: tuple[tuple[str, str], ...]
    expires_ns: int = NEVER


Proof = UserProof | CertificateProof | JwtProof


class Identity(Struct, frozen=True, kw_only=True):
    """An identity and its rights.

    Attributes:
        rm_ids: the resource managers that it may register as.
        partitions: in lower case, as partitions are compared without case.
        users, groups: what its applications may claim.
        may_force: whether its applications may have the tag that keeps them from being rejected.
        queues: in lower case; it sees and operates these and what is below. None: all, and what is in no queue.
    """

    name: str
    roles: frozenset[Role]
    proofs: tuple[Proof, ...] = ()
    rm_ids: Names = Names()
    partitions: Names = ANY
    users: Names = Names()
    groups: Names = Names()
    may_force: bool = False
    configure: bool = False
    queues: frozenset[str] | None = None
    limits: IdentityLimits = IdentityLimits()

    def may_register_as(self, rm_id: str) -> bool:
        """SE-21."""
        return Role.RM in self.roles and rm_id in self.rm_ids

    def may_act_in(self, partition: str) -> bool:
        """True if it may act in the partition and read of it, by role; the empty name is ``default`` (SE-22)."""
        return (partition.lower() or "default") in self.partitions

    def may_claim(self, user: str, groups: Iterable[str]) -> bool:
        """True if its applications may belong to the user with these groups (SE-23).

        Args:
            groups: as they are resolved, not as they were sent: a user without groups gets one with the user's name. So whoever
                may claim any user could choose any group, unless that group is asked for too. Without groups: whether it may
                name the user at all.
        """
        if Role.RM not in self.roles:
            return False
        allowed = set(NOBODY.groups) if self.may_force else set()
        if user in self.users.names:
            allowed.add(user)
        is_user = user in self.users or (self.may_force and user == NOBODY.user)
        return is_user and all(group in self.groups or group in allowed for group in groups)

    def may_copy(self) -> bool:
        """True if it may get all turns, and so everything that there is (SE-100)."""
        return Role.REPLICA in self.roles and self.queues is None and self.partitions == ANY

    def may_act_on(self, queue: str) -> bool:
        """True if it may operate applications in the queue, a path in lower case (SE-26)."""
        return Role.OPERATOR in self.roles and self._reaches(queue)

    def sees(self, queue: str) -> bool:
        """True if it may read of the queue, a path in lower case (SE-26)."""
        return Role.READER in self.roles and self._reaches(queue)

    def includes(self, other: Identity) -> bool:
        """True if it may do all that the other one may. Limits are no rights."""
        return (
            other.roles <= self.roles
            and self.rm_ids.includes(other.rm_ids)
            and self.partitions.includes(other.partitions)
            and self._claims_all(other)
            and self.may_force >= other.may_force
            and self.configure >= other.configure
            and (self.queues is None or (other.queues is not None and all(map(self._reaches, other.queues))))
        )

    def _claims_all(self, other: Identity) -> bool:
        """A user by its name brings the group with its name, which ``*`` does not."""
        own_groups = Role.RM not in other.roles or all(self.may_claim(user, [user]) for user in other.users.names)
        return self.users.includes(other.users) and self.groups.includes(other.groups) and own_groups

    def _reaches(self, queue: str) -> bool:
        return self.queues is None or is_below(queue, self.queues)


def normal_queue(path: str) -> str:
    """A queue path as it is compared: in lower case, without a dot at its end."""
    return path.lower().rstrip(".")


def is_below(queue: str, queues: Collection[str]) -> bool:
    """True if the queue is one of ``queues`` or below one of them."""
    while queue and queue not in queues:
        queue = queue.rpartition(".")[0]
    return bool(queue)


def local_reader(uid: int | None) -> Identity:
    """Another user of this machine, where no access file is needed (SE-52); None: an unknown one."""
    return Identity(name="unknown user" if uid is None else f"user {uid}", roles=frozenset({Role.READER, Role.METRICS}))


#: The identity that may do everything where no access file is needed (SE-1).
ANYBODY = Identity(
    name="anybody",
    roles=frozenset(Role),
    rm_ids=ANY,
    users=ANY,
    groups=ANY,
    may_force=True,
    configure=True,
)
