"""Access files in a small world: files by name, and users of a machine that has four."""

from collections.abc import Mapping

from ykactor.access.access import Access
from ykactor.access.file import Environment, load
from ykactor.wire.queuefile.text import ConfigError

USERS = {"root": 0, "alice": 1000, "bob": 1001, "nobody": 65534}
NOW_NS = 1_800_000_000 * 10**9


def environment(files: Mapping[str, bytes] = {}) -> Environment:
    def read(name: str) -> bytes:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory", name)
        return files[name]

    return Environment(read, USERS.get)


def access_of(text: str, files: Mapping[str, bytes] = {}) -> Access:
    """The parsed text of an access file."""
    return load(text, "access.yaml", environment(files))


def mistakes_of(text: str, files: Mapping[str, bytes] = {}) -> list[str]:
    """The lines of all mistakes; there has to be one."""
    try:
        access_of(text, files)
    except ConfigError as error:
        return str(error).splitlines()
    raise AssertionError("found no mistake")
