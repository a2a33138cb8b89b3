"""Finds the queue file in what people have: the file itself, a Kubernetes manifest with a ConfigMap, or Helm values (CF-85).

The form is recognised by content. ``open_queues`` returns the YAML document of the queue file. Its nodes have the positions of
the text that people edit.
"""

import base64
import binascii
import difflib
import gzip
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import NamedTuple

from ykactor.wire.queuefile.fields import TextReader
from ykactor.wire.queuefile.origins import Origin
from ykactor.wire.queuefile.places import Place, join
from ykactor.wire.queuefile.text import (
    ConfigError,
    Document,
    Mapping,
    Mistakes,
    Node,
    Scalar,
    Sequence,
    as_written,
    compose,
    compose_all,
    only_root,
)

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

QUEUES, COMPRESSED = "queues.yaml", "queues.yaml.gz"
HELM_KEY = "yunikornDefaults"
#: The ConfigMaps that YuniKorn reads; the settings of a later one replace those of an earlier one (CF-86).
_RANKS = {"yunikorn-defaults": 0, "yunikorn-configs": 2}
_OTHER_RANK = 1
#: The same as for files: some kilobytes of gzip can stand for gigabytes.
UNCOMPRESSED_MAX = 16 * 2**20
#: Ignored settings that a warning names.
_NAMED_MAX = 20
_EXPECTED = f"expected a ConfigMap with {QUEUES} in data or {COMPRESSED} in binaryData, or Helm values with it in {HELM_KEY}"


class Queues(NamedTuple):
    """A queue file, as it was found."""

    text: str
    #: The YAML document; None if there is none.
    document: Node | None
    mistakes: Mistakes
    warnings: Mistakes


class _Settings(NamedTuple):
    """A map of settings of YuniKorn: ``data`` or ``binaryData`` of a ConfigMap, or ``yunikornDefaults``."""

    place: Place
    #: The key whose value is a queue file.
    key: str
    rank: int
    is_yunikorns: bool

    @property
    def mapping(self) -> Mapping:
        assert isinstance(self.place.node, Mapping)
        return self.place.node


def open_queues(text: str, source: str) -> Queues:
    """The queue file that ``text`` is or contains.

    Raises:
        ConfigError: it is not YAML, or a manifest without a queue file.
    """
    mistakes, warnings = Mistakes(source), Mistakes(source)
    documents = compose_all(text, mistakes)
    wrappers = [] if _is_queue_file(documents) else [document for document in documents if _is_wrapper(document.root)]
    if not wrappers:
        return Queues(text, only_root(documents, mistakes), mistakes, warnings)
    mistakes.found.clear()  # tags, which other manifests may have
    settings = [settings for wrapper in wrappers for settings in _settings_in(wrapper.root)]
    return _Unwrapping(text, mistakes, warnings).queues(settings, wrappers[0])


def _is_queue_file(documents: list[Document]) -> bool:
    root = documents[0].root if documents else None
    return isinstance(root, Mapping) and root.entry("partitions") is not None


def _is_wrapper(root: Node | None) -> bool:
    return isinstance(root, Mapping) and any(root.entry(key) for key in ("kind", HELM_KEY))


def _settings_in(root: Node | None) -> Iterator[_Settings]:
    """Every map of settings in a document, also in a list of manifests."""
    if not isinstance(root, Mapping):
        return
    kind = _text_of(root, "kind")
    if kind == "ConfigMap":
        yield from _settings_of(root)
    elif kind == "List" and (items := root.entry("items")) and isinstance(items[1], Sequence):
        for item in items[1].nodes:
            yield from _settings_in(item)
    elif (values := root.entry(HELM_KEY)) and isinstance(values[1], Mapping):
        yield _Settings(Place(values[1], HELM_KEY), QUEUES, 0, is_yunikorns=True)


def _settings_of(config_map: Mapping) -> Iterator[_Settings]:
    metadata = config_map.entry("metadata")
    name = _text_of(metadata[1], "name") if metadata and isinstance(metadata[1], Mapping) else ""
    maps = [(path, key, config_map.entry(path)) for path, key in (("data", QUEUES), ("binaryData", COMPRESSED))]
    found = [(path, key, entry[1]) for path, key, entry in maps if entry and isinstance(entry[1], Mapping)]
    is_yunikorns = name in _RANKS or any(node.entry(key) for _, key, node in found)
    for path, key, node in found:
        yield _Settings(Place(node, path), key, _RANKS.get(name, _OTHER_RANK), is_yunikorns)


def _text_of(node: Mapping, key: str) -> str:
    """The text of a scalar; "" if there is none."""
    entry = node.entry(key)
    return entry[1].text if entry and isinstance(entry[1], Scalar) else ""


class _Unwrapping:
    """Takes the queue file out of the maps of settings of one file."""

    def __init__(self, file: str, mistakes: Mistakes, warnings: Mistakes) -> None:
        self.file = file
        self.mistakes = mistakes
        self.warnings = warnings

    def queues(self, found: list[_Settings], wrapper: Document) -> Queues:
        settings = sorted((one for one in found if one.is_yunikorns), key=lambda one: one.rank)
        reader = TextReader(self.mistakes)
        entries = [(one, reader.entries(one.place.node, one.place)) for one in settings]
        candidates = [(one, *of[one.key]) for one, of in entries if one.key in of]
        if not candidates:
            raise self.missing(found, wrapper)
        used, name, value = candidates[-1]
        for other, other_name, _ in candidates[:-1]:
            text = f"no effect: the {used.key} in line {name.line} replaces it"
            self.warnings.add("", other_name, join(other.place.path, other.key), text)
        self.warn_of_ignored([(one, name) for one, of in entries for name, _ in of.values() if name.text != one.key])
        if isinstance(value, Scalar):
            return self.read(value, used)
        reader.wrong_kind(value, "text; write | after the key", used.place, (used.key,))
        raise ConfigError(self.mistakes.found)

    def missing(self, found: list[_Settings], wrapper: Document) -> ConfigError:
        names = [(one, name) for one in found for name, _ in one.mapping.entries() if isinstance(name, Scalar)]
        close = difflib.get_close_matches(QUEUES, [name.text[:40] for _, name in names], n=1, cutoff=0.8)
        for one, name in names:
            if name.text in close:
                return self.refused(name, join(one.place.path, name.text), f"found no queue file, but this key, {_EXPECTED}")
        return self.refused(wrapper, "", f"found no queue file, {_EXPECTED}")

    def warn_of_ignored(self, ignored: list[tuple[_Settings, Scalar]]) -> None:
        if ignored:
            names = [join("", name.text) for _, name in ignored]
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            text = f"only the queue file is used, ignored: {', '.join(names[:_NAMED_MAX])}{more}"
            settings, first = ignored[0]
            self.warnings.add("", first, settings.place.path, text)

    def read(self, value: Scalar, settings: _Settings) -> Queues:
        """The queue file in ``value``; of a compressed one the positions are those after decompression (CF-87)."""
        text, origin = "" if value.is_null else value.text, as_written
        path = join(settings.place.path, settings.key)
        if settings.key == COMPRESSED:
            try:
                text = _uncompressed(text)
            except ValueError as error:
                raise self.refused(value, path, str(error)) from None
            self.mistakes.source = self.warnings.source = f"{self.mistakes.source}({COMPRESSED}, uncompressed)"
        elif text:
            origin = Origin(self.file, value.line, value.column, value.style, text)
        if not text:
            self.warnings.add("", value, path, "the queue file is empty, so the built-in configuration is used")
            text = DEFAULT_TEXT
        return Queues(text, compose(text, self.mistakes, origin), self.mistakes, self.warnings)

    def refused(self, node: Node | Document, path: str, message: str) -> ConfigError:
        self.mistakes.add("P9", node, path, message)
        return ConfigError(self.mistakes.found)


def _uncompressed(encoded: str) -> str:
    """Raises ValueError with a message for the user."""
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("found text that is not base64, expected gzip data in base64") from None
    try:
        content = gzip.GzipFile(fileobj=BytesIO(data)).read(UNCOMPRESSED_MAX + 1)
    except (OSError, EOFError, zlib.error):
        raise ValueError("found data that are not gzip, or damaged, expected gzip data in base64") from None
    if len(content) > UNCOMPRESSED_MAX:
        raise ValueError(f"found more than {UNCOMPRESSED_MAX} bytes after decompression, expected at most that")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"found no UTF-8 text after decompression: {error.reason} at byte {error.start}") from None
