"""Bearer tokens that the daemon itself gives out, what is kept of them (SE-4), and the file of them (SE-5).

A token is random, so its SHA-256 is enough to keep: there is nothing to guess, which a slow hash would have to protect.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ykactor.access import moments
from ykactor.access.moments import Moment
from ykactor.core.values.times import NEVER

_PREFIX = "yk_"
_TOKEN = re.compile(r"yk_[A-Za-z0-9_-]{43}")
_RANDOM_BYTES = 32
#: The shortest id; one that exists already gets more of the digest.
_ID_DIGITS = 8
#: Compared with when nothing is found, so that something is always compared; no digest has these digits.
_NOTHING = "-" * 64


class TokensError(ValueError):
    """The text of a tokens file is refused; the message says why."""


class Token(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of one token.

    Attributes:
        id: the first digits of ``sha256``, by which people name the token.
        sha256: of the token, in hexadecimal digits.
        identity: the name of the identity that the token shows.
    """

    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{8,64}\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    identity: str
    created: Moment
    expires: Moment | None = None

    @property
    def expires_ns(self) -> int:
        return NEVER if self.expires is None else moments.unix_ns(self.expires)


class Tokens:
    """All tokens of a file, in its order; never changes."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self.all = tuple(tokens)
        self._by_digest = {token.sha256: token for token in self.all}

    def find(self, secret: str) -> Token | None:
        """The token whose text this is.

        The digest of the secret is looked up, not the secret: how long a look-up takes tells nothing that could be used to come
        nearer to a digest that is kept.
        """
        digest = digest_of(secret)
        token = self._by_digest.get(digest)
        is_equal = hmac.compare_digest(digest, token.sha256 if token is not None else _NOTHING)
        return token if is_equal else None

    def with_new(self, secret: str, identity: str, created: Moment, expires: Moment | None) -> Tokens:
        """These tokens and one more, the last."""
        digest = digest_of(secret)
        used = {token.id for token in self.all}
        token_id = next(found for length in range(_ID_DIGITS, 65) if (found := digest[:length]) not in used)
        token = Token(id=token_id, sha256=digest, identity=identity, created=created, expires=expires)
        return Tokens([*self.all, token])

    def without(self, token_id: str) -> Tokens:
        """These tokens without the one that has this id."""
        return Tokens(token for token in self.all if token.id != token_id)


class _File(Struct, forbid_unknown_fields=True):
    tokens: list[Token]


def make() -> str:
    """A new token: ``yk_`` and 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def is_token(text: str) -> bool:
    """True if ``text`` has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """The SHA-256 of a token, in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def parse(content: bytes) -> Tokens:
    """The tokens in the content of a tokens file.

    Raises:
        TokensError with what was found and expected, which never holds a part of a digest beyond the id.
    """
    try:
        tokens = msgspec.json.decode(content, type=_File).tokens
    except msgspec.DecodeError as error:
        reason = str(error).encode("unicode_escape").decode()  # it may name a key of the file, which may have any characters
        raise TokensError(f"not a tokens file: {reason}") from None
    _check_unique(tokens)
    return Tokens(tokens)


def text_of(tokens: Tokens) -> bytes:
    """The content of a tokens file."""
    return msgspec.json.format(msgspec.json.encode(_File([*tokens.all])), indent=2) + b"\n"


def _check_unique(tokens: list[Token]) -> None:
    ids: set[str] = set()
    for index, token in enumerate(tokens):
        if not token.sha256.startswith(token.id):
            raise TokensError(f"tokens[{index}].id: found {token.id}, expected the first digits of sha256")
        if token.id in ids:
            raise TokensError(f"tokens[{index}].id: found {token.id} a second time, expected each once")
        ids.add(token.id)
    if len({token.sha256 for token in tokens}) < len(tokens):
        raise TokensError("tokens: found the same sha256 twice, expected each once")


def read(path: Path) -> Tokens:
    """The tokens of the file; none if it does not exist, as before the first token.

    Raises:  TokensError, with the name of the file; OSError.
    """
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return Tokens()
    except TokensError as error:
        raise TokensError(f"{path}: {error}") from None


def change(path: Path, changed: Callable[[Tokens], Tokens]) -> Tokens:
    """Replaces the tokens of the file by what ``changed`` makes of them, and returns these.

    Waits for another writer. When it returns, the new file is on the disk; when it raises, the old one is as it was.

    Raises:  TokensError, with the name of the file; OSError.
    """
    path = path.resolve()  # a link stays one
    with _locked(path):
        tokens = changed(read(path))
        _replace(path, text_of(tokens))
    return tokens


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock has a file of its own, which stays: the file beside it is another one after each change."""
    file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _replace(path: Path, content: bytes) -> None:
    """Mode and owner stay, so that a daemon of another user can still read the file; a new one is for its owner only."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            _keep_owner(path, file)
            os.fsync(file)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _keep_owner(path: Path, file: int) -> None:
    try:
        old = path.stat()
    except FileNotFoundError:
        os.fchmod(file, 0o600)
        return
    if (old.st_uid, old.st_gid) != (os.fstat(file).st_uid, os.fstat(file).st_gid):
        os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, old.st_mode & 0o777)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
