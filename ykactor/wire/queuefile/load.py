"""Loads a queue file: converts its text to a ``SchedulerConfig``, or reports every mistake with its place.

Called by ``check-config``, at start, and on every reload.
"""

import hashlib
import re

from ykactor.core.config.model import SchedulerConfig
from ykactor.wire.queuefile import build, rules, warnings
from ykactor.wire.queuefile.fields import TextReader
from ykactor.wire.queuefile.manifests import DEFAULT_TEXT, Queues, open_queues
from ykactor.wire.queuefile.places import Place, note
from ykactor.wire.queuefile.schema import FileText, PartitionText
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistake, Scalar

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]

#: A checksum within the text, which is not part of the checksum. It ends with the line, so that no other text is left out.
_OLD_CHECKSUM = re.compile("checksum: .{0,64}")


def load(text: str, source: str = "queues.yaml") -> SchedulerConfig:
    """The configuration that ``text`` describes: a queue file, or a manifest that contains one (CF-85).

    Empty text means ``DEFAULT_TEXT`` (CF-1). The ``text`` of the configuration is the whole text, its checksum that of the queue
    file.

    Args:
        source: the name of the file, for messages.
    Raises:
        ConfigError with all mistakes: first P1 to P9 by position, then broken rules in the order of validation (CF-74).
    Cost: about 60 us for each queue with libyaml; 150 us for one with limits, access lists and resources; in a
        manifest nearly twice that.
    """
    text = text or DEFAULT_TEXT
    queues = open_queues(text, source)
    mistakes, found = queues.mistakes, queues.warnings
    partitions = _read(queues)
    mistakes.found.sort(key=_position)
    rules.check(partitions, mistakes)
    warnings.collect(partitions, found)
    warned = tuple(map(str, sorted(found.found, key=_position)))
    if mistakes.found:
        raise ConfigError(mistakes.found, warned)
    built = tuple(map(build.build_partition, partitions))
    return SchedulerConfig(partitions=built, checksum=checksum_of(queues.text), text=text, warnings=warned)


def written(text: str) -> list[PartitionText]:
    """The partitions of a valid text as they are written, completed (CF-14 to CF-18)."""
    return _read(open_queues(text or DEFAULT_TEXT, "queues.yaml"))


def checksum_of(text: str) -> str:
    """CF-12: SHA-256 of the text without a checksum inside it, in capital hexadecimal digits."""
    return hashlib.sha256(_OLD_CHECKSUM.sub("", text, count=1).encode()).hexdigest().upper()


def _position(mistake: Mistake) -> tuple[int, int]:
    return mistake.line, mistake.column


def _read(queues: Queues) -> list[PartitionText]:
    """The partitions of the file, normalised; reports P2 to P8."""
    document = queues.document
    if document is None or (isinstance(document, Scalar) and document.is_null):
        document = Mapping(1, 1)
    file = TextReader(queues.mistakes).fields(FileText, Place(document, ""))
    if not file.partitions and not queues.mistakes.found:
        note(queues.mistakes, "P8", file, ("partitions",), "found no partition, expected at least one")
    for partition in file.partitions:
        partition.normalise()
    return file.partitions
