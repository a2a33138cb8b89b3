"""Sealed messages are the ones that were sent, each once and in their order."""

from __future__ import annotations

import pytest

from ykactor.wire.seals import DamagedError, Seal

SENT = [b"one", b"", b"one", b"two" * 1000]


def sealed() -> list[bytes]:
    seal = Seal()
    return [seal.close(message) for message in SENT]


def test_what_was_sealed_can_be_opened() -> None:
    """Every message comes out as it went in, also an empty one, and the same again."""
    seal = Seal()
    assert [seal.open(message) for message in sealed()] == SENT


@pytest.mark.parametrize(
    "come",
    [
        sealed()[1:],  # one is missing
        [sealed()[0], *sealed()],  # one comes twice
        [sealed()[2], sealed()[1]],  # one is out of its order
        [sealed()[0][:-1]],
        [sealed()[0] + b"x"],
        [b"\x00" + sealed()[0][1:]],
        [b"", b"x", "text"],
    ],
)
def test_anything_else_is_found_out(come: list[bytes | str]) -> None:
    """A damaged, missing, repeated or misplaced message cannot be opened."""
    with pytest.raises(DamagedError):
        [*map(Seal().open, come)]
