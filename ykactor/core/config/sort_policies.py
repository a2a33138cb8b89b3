"""The policies by which a leaf orders its applications (PR-73); ``queueing.leaf_order`` has the keys of each."""

from __future__ import annotations

from msgspec import Struct


class SortPolicy(Struct, frozen=True, kw_only=True):
    """A policy.

    Attributes:
        by_usage: the place of an application changes with what it uses.
        one_starts: of the applications that begin one is in the order (PR-75).
        takes_gangs: the leaf takes applications that announce a gang (AP-18).
        remark: the warning about a queue that has it, or "".
    """

    by_usage: bool = False
    one_starts: bool = False
    takes_gangs: bool = True
    remark: str = ""


#: By the value of ``application.sort.policy``; the first is the default.
SORT_POLICIES = {
    "fifo": SortPolicy(),
    "fair": SortPolicy(by_usage=True, takes_gangs=False),
    "stateaware": SortPolicy(
        one_starts=True,
        remark="YuniKorn 1.6 and later treat stateaware as fifo; here one application starts at a time, "
        "so others may wait up to 300 s while it is Starting",
    ),
}
#: The policies of queues that take gangs, in words.
WITH_GANGS = " or ".join(name for name, policy in SORT_POLICIES.items() if policy.takes_gangs)
