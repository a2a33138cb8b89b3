"""Headers that a handshake has beside those of the client."""

from __future__ import annotations

from ykactor.client.login import Login


class Shown(Login, frozen=True):
    """A login with further headers."""

    others: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers, *self.others]
