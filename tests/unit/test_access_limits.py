"""The limits of identities and of the daemon: names, defaults, and which replaces which."""

import re

from accessfiles import access_of

from ykactor.access.limits import FOR_ALL, FOR_EACH, IdentityLimits, Limits
from ykactor.rules import load


def test_the_rule_has_all() -> None:
    """SE-48: names and defaults of the table are those of the daemon."""
    listed = {name: int(number) for name, number in re.findall(r"^\| `(\w+)` \| (\d+) \|", load()["SE-48"].text, re.MULTILINE)}
    each = {key: getattr(IdentityLimits(), name) for key, name in FOR_EACH.items()}
    assert listed == each | {key: getattr(Limits(), name) for key, name in FOR_ALL.items()}


def test_which_replaces_which() -> None:
    """SE-48: what an identity has, then what the file has, then the default."""
    access = access_of("""
identities:
  - {name: a, roles: [reader], limits: {sessions: 1}}
  - {name: b, roles: [reader]}
limits: {sessions: 2, asks: 3, waitingBytes: 4}
""")
    first, second = (identity.limits for identity in access.identities)
    assert (first.sessions, first.asks, first.nodes) == (1, 3, IdentityLimits().nodes)
    assert (second.sessions, second.asks) == (2, 3)
    assert (access.limits.waiting_bytes, access.limits.each) == (4, second)
