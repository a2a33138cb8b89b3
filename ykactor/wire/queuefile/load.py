"""Loads a queue file: converts its text to a ``SchedulerConfig``, or reports every mistake with its place.

Called by ``check-config``, at start, and on every reload.
"""

import hashlib
import re

from ykactor.core.config.model import SchedulerConfig
from ykactor.wire.queuefile import build, rules, warnings
from ykactor.wire.queuefile.fields import TextReader
from ykactor.wire.queuefile.places import Place, note
from ykactor.wire.queuefile.schema import FileText, PartitionText
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistake, Mistakes, Scalar, compose

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]

#: The configuration without a queue file: a queue for each namespace, to which everybody may submit (CF-1).
DEFAULT_TEXT = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: "*"
"""

#: A checksum within the text, which is not part of the checksum. It ends with the line, so that no other text is left out.
_OLD_CHECKSUM = re.compile("checksum: .{0,64}")


def load(text: str, source: str = "queues.yaml") -> SchedulerConfig:
    """The configuration that ``text`` describes; empty text means ``DEFAULT_TEXT`` (CF-1).

    Args:
        source: the name of the file, for messages.
    Raises:
        ConfigError with all mistakes: first P1 to P8 by position, then broken rules in the order of validation (CF-74).
    Cost: about 60 us for each queue with libyaml; 150 us for one with limits, access lists and resources.
    """
    text = text or DEFAULT_TEXT
    mistakes, found = Mistakes(source), Mistakes(source)
    partitions = _read(text, mistakes)
    mistakes.found.sort(key=_position)
    rules.check(partitions, mistakes)
    warnings.collect(partitions, found)
    warned = tuple(map(str, sorted(found.found, key=_position)))
    if mistakes.found:
        raise ConfigError(mistakes.found, warned)
    built = tuple(map(build.build_partition, partitions))
    return SchedulerConfig(partitions=built, checksum=checksum_of(text), text=text, warnings=warned)


def checksum_of(text: str) -> str:
    """CF-12: SHA-256 of the text without a checksum inside it, in capital hexadecimal digits."""
    return hashlib.sha256(_OLD_CHECKSUM.sub("", text, count=1).encode()).hexdigest().upper()


def _position(mistake: Mistake) -> tuple[int, int]:
    return mistake.line, mistake.column


def _read(text: str, mistakes: Mistakes) -> list[PartitionText]:
    """The partitions of the file, normalised; reports P1 to P8."""
    document = compose(text, mistakes)
    if document is None or (isinstance(document, Scalar) and document.is_null):
        document = Mapping(1, 1)
    file = TextReader(mistakes).fields(FileText, Place(document, ""))
    if not file.partitions and not mistakes.found:
        note(mistakes, "P8", file, ("partitions",), "found no partition, expected at least one")
    for partition in file.partitions:
        partition.normalise()
    return file.partitions
