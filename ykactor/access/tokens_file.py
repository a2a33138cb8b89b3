"""The tokens file on disk (SE-5): read, and changed by one writer at a time, as a whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ykactor.access.tokens import Tokens, TokensError, parse, text_of


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
