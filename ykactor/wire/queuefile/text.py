"""Parses YAML text to a tree of nodes with line and column.

The tree consists of ``Scalar``, ``Sequence`` and ``Mapping``; ``fields`` reads typed values from it. Scalars stay text: YAML's
own types would turn ``010`` into 8 and ``12:30`` into 750 (CF-5).

The tree is built from the events of the parser, not with ``yaml.compose``: that recurses in C without a limit, so a text with
some hundred thousand ``[`` would crash the process. Here the depth and the growth through aliases are limited while parsing.
"""

import re
from collections.abc import Callable

import yaml
from msgspec import Struct

#: Levels of nested lists and mappings, of which a level of queues takes two. Limits every recursion over the tree.
DEPTH_MAX = 256
#: Values that aliases may repeat in total: with aliases of aliases, ten lines of text could stand for billions of values.
REPEATED_MAX = 100_000
#: The mistakes that a summary holds, and the characters of each: the path of a deep queue may be thousands long.
SUMMARY_MAX = 20
SUMMARY_LINE_MAX = 1000

LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

#: Characters that YAML does not allow; searched first, because libyaml reports them without line and column.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TEXT_TAGS = frozenset(("!", "tag:yaml.org,2002:str"))
_COLLECTION_TAGS = frozenset(("!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"))


#: Maps a position in the parsed text, line and column from 1, to the one in the file (``manifests.py``).
Origin = Callable[[int, int], tuple[int, int]]


def as_written(line: int, column: int) -> tuple[int, int]:
    """The text is the file."""
    return line, column


class Mistake(Struct, frozen=True):
    """A mistake in the text, or a warning about it (then without code)."""

    source: str
    #: Both count from 1.
    line: int
    column: int
    #: For example ``partitions[0].queues[1](root.b).resources.max.vcore``; empty if the text is not YAML.
    path: str
    #: The sentence: found, and expected.
    message: str
    #: The code of the broken rule, for example "P2" or "E25".
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}:{self.column}: "
        return place + (f"{self.path}: " if self.path else "") + self.message + (f" ({self.code})" if self.code else "")


class ConfigError(Exception):
    """The text is refused because of ``mistakes``: all of them, in the order of validation."""

    def __init__(self, mistakes: list[Mistake], warnings: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes
        #: One line each.
        self.warnings = warnings

    def summary(self) -> str:
        """The first mistakes and the number of the others, for messages and logs (CF-52)."""
        return summary(self.mistakes)


def summary(mistakes: list[Mistake]) -> str:
    """The first mistakes, one on each line, and the number of the others: 8 kB of text can hold 2,000."""
    lines = [_shortened(str(mistake)) for mistake in mistakes[:SUMMARY_MAX]]
    if len(mistakes) > SUMMARY_MAX:
        lines.append(f"and {len(mistakes) - SUMMARY_MAX} more")
    return "\n".join(lines)


def _shortened(line: str) -> str:
    """``line`` without its middle if it is long: the place is at its start, what was found at its end."""
    half = SUMMARY_LINE_MAX // 2
    return line if len(line) <= SUMMARY_LINE_MAX else f"{line[:half]} ... {line[-half:]}"


class _Node(Struct):
    """A place in the text, from 1."""

    line: int
    column: int


class Scalar(_Node):
    """A single value, as written in the text."""

    text: str
    #: True if it is written without quotes and without a tag; only then it can be null, a boolean or a number.
    plain: bool
    #: As in ``yaml.ScalarEvent``: a quote, ``|`` or ``>``.
    style: str = ""
    #: The number of values in this subtree, and of levels below this node.
    size: int = 1
    height: int = 0

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in _NULLS


class _Collection(_Node):
    nodes: list["Node"] = []
    size: int = 1
    height: int = 1

    def add(self, node: "Node") -> None:
        self.nodes.append(node)
        self.size += node.size
        self.height = max(self.height, node.height + 1)


class Sequence(_Collection):
    """A list; ``nodes`` are its items."""


class Mapping(_Collection):
    """A mapping; ``nodes`` are key, value, key, value."""

    #: The first entry of each key; built at the first lookup.
    index: dict[str, tuple[Scalar, "Node"]] | None = None

    def entry(self, key: str) -> tuple[Scalar, "Node"] | None:
        """Key and value of the first entry with this key."""
        if self.index is None:
            self.index = {}
            for name, value in self.entries():
                if isinstance(name, Scalar):
                    self.index.setdefault(name.text, (name, value))
        return self.index.get(key)

    def entries(self) -> list[tuple["Node", "Node"]]:
        """Key and value of every entry, in the order of the text, with repeated keys."""
        return list(zip(self.nodes[::2], self.nodes[1::2], strict=True))


Node = Scalar | Sequence | Mapping


class Document(_Node):
    """One of the YAML documents of a text."""

    root: Node | None = None


class Mistakes:
    """Collects the mistakes of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Mistake] = []

    def add(self, code: str, node: _Node, path: str, message: str) -> None:
        self.found.append(Mistake(self.source, node.line, node.column, path, message, code))

    def fatal(self, line: int, column: int, message: str) -> ConfigError:
        """The error for a text that cannot be parsed any further (P1)."""
        return ConfigError([*self.found, Mistake(self.source, line, column, "", message, "P1")])


def compose(text: str, mistakes: Mistakes, origin: Origin = as_written) -> Node | None:
    """The first document of ``text``, None if there is none; a second one is a mistake (CF-11). Raises as ``compose_all``."""
    return only_root(compose_all(text, mistakes, origin), mistakes)


def only_root(documents: list[Document], mistakes: Mistakes) -> Node | None:
    """The root of the first document; a second one is a mistake."""
    if len(documents) > 1:
        mistakes.add("P8", documents[1], "", "found a second document, expected one")
    return documents[0].root if documents else None


def compose_all(text: str, mistakes: Mistakes, origin: Origin = as_written) -> list[Document]:
    """The documents of ``text``; positions of nodes and mistakes are those that ``origin`` gives.

    Raises:
        ConfigError with code P1 if ``text`` is not YAML, is nested too deeply or grows too much through aliases.
    """
    if unprintable := _UNPRINTABLE.search(text):
        start = unprintable.start()
        place = origin(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        raise mistakes.fatal(*place, f"not YAML: the character {unprintable.group()!a} is not allowed")
    composer = _Composer(mistakes, origin)
    try:
        for event in yaml.parse(text, LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, mistakes, origin) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # These have no position. ValueError and OverflowError: the scanner in Python passes invalid escapes to chr() and int().
        raise mistakes.fatal(*origin(1, 1), f"not YAML: {' '.join(str(error).split())}") from None
    return composer.documents


class _Composer:
    """Builds the tree, one event at a time, without recursion."""

    def __init__(self, mistakes: Mistakes, origin: Origin) -> None:
        self.mistakes = mistakes
        self.origin = origin
        self.documents: list[Document] = []
        self.open: list[tuple[Sequence | Mapping, str | None]] = []
        self.anchors: dict[str, Node] = {}
        self.repeated = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.refuse_tag(event, _TEXT_TAGS)
            self.place(Scalar(*self.start(event), event.value, event.implicit[0], event.style or ""), event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.refuse_tag(event, _COLLECTION_TAGS)
            kind = Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence
            self.open.append((kind(*self.start(event)), event.anchor))
            self.check_depth(event, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.place(*self.open.pop())
        elif isinstance(event, yaml.AliasEvent):
            self.repeat(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents.append(Document(*self.start(event)))
            self.anchors.clear()

    def place(self, node: Node, anchor: str | None) -> None:
        """Add a complete node to its parent. Its anchor is known from now on, so no node can contain an alias of itself."""
        if anchor is not None:
            self.anchors[anchor] = node
        if self.open:
            self.open[-1][0].add(node)
        else:
            self.documents[-1].root = node

    def repeat(self, event: yaml.AliasEvent) -> None:
        node = self.anchors.get(event.anchor or "")
        if node is None:
            raise self.fatal(event, f"the alias *{event.anchor} has no anchor with a complete value before it")
        self.check_depth(event, node.height)
        self.repeated += node.size
        if self.repeated > REPEATED_MAX:
            raise self.fatal(event, f"aliases repeat more than {REPEATED_MAX} values")
        self.place(node, None)

    def check_depth(self, event: yaml.Event, height: int) -> None:
        if len(self.open) + height > DEPTH_MAX:
            raise self.fatal(event, f"lists and mappings are nested more than {DEPTH_MAX} levels deep")

    def refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, known: frozenset[str]) -> None:
        if event.tag is not None and event.tag not in known:
            self.mistakes.add("P4", _Node(*self.start(event)), "", f"found the tag {event.tag!r}, expected none")

    def fatal(self, event: yaml.Event, message: str) -> ConfigError:
        return self.mistakes.fatal(*self.start(event), message)

    def start(self, event: yaml.Event) -> tuple[int, int]:
        """Line and column in the file, from 1."""
        mark = event.start_mark
        assert mark is not None, "events of a parser have marks"
        return self.origin(mark.line + 1, mark.column + 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, mistakes: Mistakes, origin: Origin) -> ConfigError:
    """P1 with the message of the parser, and advice for two common mistakes."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    message = f"not YAML: {error.problem}"
    if error.context and error.context_mark:
        start_line, start_column = origin(error.context_mark.line + 1, error.context_mark.column + 1)
        message += f", {error.context} that starts at line {start_line}, column {start_column}"
    lines = text.split("\n")
    if line < len(lines) and lines[line][column : column + 1] == "\t":
        message += "; indent with spaces, not with tabs"
    elif error.context == "while scanning an alias":
        message += '; put a star in quotes: "*"'
    return mistakes.fatal(*origin(line + 1, column + 1), message)
