"""Bytes to wire structs and back: one ``Encoding`` for each subprotocol, and the error messages for wrong input.

Sessions and clients call an ``Encoding``; ``wire.scenario`` uses ``explain`` and ``refuse_repeated_keys`` for files.
"""

import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_args

import msgspec

from ykactor.core.values.parts import PART_MAX, Steps, finished, in_parts
from ykactor.wire.si import lengths
from ykactor.wire.si import messages as si
from ykactor.wire.si.division import LISTS, VALUE_MAX, Division, put_back, too_large
from ykactor.wire.si.protocol_error import ProtocolError

#: The fields that hold a ``si.WireResource``, by their names on the wire.
_RESOURCE_FIELDS = ("resourcePerAlloc", "schedulableResource", "placeholderAsk")

#: An error of msgspec: "Expected `int`, got `str` - at `$.nodes[0].nodeID`". ``[...]`` is any key or value of a mapping.
_MISTAKE = re.compile(r"(?P<text>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>.*)`)?", re.DOTALL)
#: Positions have few digits; a peer may write what only looks like a path.
_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")
#: Bytes of a message that is decoded at once: it takes up to 10 ms, of usual entries 1 ms.
PART_BYTES = 2**18
#: Bytes of a character in UTF-8, at most.
_BYTES_EACH = 4
#: The length of a message that is decoded as a whole to explain its mistake, which takes some ms.
_TREE_MAX = 2**16
_UNKNOWN_FIELD = "Object contains unknown field "
_MISSING_FIELD = "Object missing required field "
_MISSING = "found nothing, expected this required field"


class _Identified(msgspec.Struct):
    """The fields that all requests have."""

    id: str = ""


class Encoding:
    """One subprotocol. Decoders raise ``ProtocolError`` and no other exception."""

    def __init__(self, name: str, library: ModuleType) -> None:
        """``library`` is ``msgspec.json`` or ``msgspec.msgpack``."""
        self.name = name
        self._library = library
        #: Encodes one message.
        self.encode: Callable[[msgspec.Struct], bytes] = library.Encoder().encode
        self._requests = library.Decoder(si.Request)
        self._responses = library.Decoder(si.Response)
        self._operator_requests = library.Decoder(si.OperatorRequest)
        self._feed_requests = library.Decoder(si.FeedRequest)
        self._feed = library.Decoder(si.FeedMessage)
        self._ids = library.Decoder(_Identified)
        self._entries = {path: library.Decoder(listed.kind) for path, listed in LISTS.items()}

    def encode_each(self, messages: list[msgspec.Struct]) -> list[bytes]:
        """Messages as bytes, each on its own. Cost: 0.3 us for an event."""
        return list(map(self.encode, messages))

    def decode_request(self, data: bytes | str) -> si.Request:
        """A resource manager's request, without a pause. Its entries may be too long (``requests.submissions``)."""
        return finished(self.decoding_request(data))

    def decoding_request(self, data: bytes | str) -> Steps[si.Request]:
        """Decode a request like ``decode_request``; a large one is decoded in parts of a few ms.

        Cost: 0.4 us for each ask, 3 us if there are many; 2 us more if the exact search for repeated keys is needed.
        """
        request: si.Request = yield from self._decoding(self._requests, data, si.Request)
        return request

    def decoding_operator_request(self, data: bytes | str) -> Steps[si.OperatorRequest]:
        """An operator's request, in the same way."""
        request: si.OperatorRequest = yield from self._decoding(self._operator_requests, data, si.OperatorRequest)
        return request

    def _checked(self, decoder: Any, data: bytes | str, kind: Any) -> Any:
        """A request, of a small message or of what is left of a large one."""
        request = self._decode(decoder, data, kind)
        # nothing in a shorter message is too long
        if _BYTES_EACH * len(data) > lengths.TEXT_MAX and (error := lengths.too_long(request, request.id)):
            raise error
        self._refuse_repeated_keys(data, request)
        return request

    def _decoding(self, decoder: Any, data: bytes | str, kind: Any) -> Steps[Any]:
        if len(data) <= PART_BYTES:
            return self._checked(decoder, data, kind)
        raw = data.encode() if isinstance(data, str) else data
        try:
            division = Division(self._library, raw)
        except ProtocolError as error:
            raise ProtocolError(error.code, error.message, error.path, self._id_of(raw)) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._checked(decoder, raw, kind)  # finds it too, and says what it is
        yield PART_MAX
        request = self._checked(decoder, division.left, kind)
        entries = dict[str, list[Any]]()
        for path, encoded in division.entries.items():
            yield from self._decoding_entries(path, encoded, request.id, entries.setdefault(path, []))
        return put_back(request, entries)

    def _decoding_entries(self, path: str, encoded: list[msgspec.Raw], request_id: str, entries: list[Any]) -> Steps[None]:
        """Decode the entries of a list, which are added to ``entries``."""
        decoder, kind = self._entries[path], LISTS[path].kind
        for part in in_parts(encoded):
            for each in map(bytes, part):
                try:
                    if len(each) > VALUE_MAX:
                        raise too_large("")
                    entry = self._decode(decoder, each, kind)
                    self._refuse_repeated_keys(each, entry)
                except ProtocolError as error:
                    raise error.below(f"{path}[{len(entries)}]", request_id) from None
                entries.append(entry)
            yield len(part)

    def _id_of(self, data: bytes) -> str:
        """The request's ``id``, if it can be read."""
        try:
            found: str = self._ids.decode(data).id
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            found = ""
        return found

    def decode_feed_request(self, data: bytes | str) -> si.FeedRequest:
        """A subscription or question of a client of the feed."""
        request: si.FeedRequest = self._decode(self._feed_requests, data, si.FeedRequest)
        if error := lengths.too_long(request):
            raise error
        self._refuse_repeated_keys(data, request)
        return request

    def decode_response(self, data: bytes | str) -> si.Response:
        """Decode a message of the daemon to a resource manager, for clients."""
        response: si.Response = self._decode(self._responses, data, si.Response)
        return response

    def decode_feed(self, data: bytes | str) -> si.FeedMessage:
        """Decode a message of the daemon to a subscriber, for clients."""
        message: si.FeedMessage = self._decode(self._feed, data, si.FeedMessage)
        return message

    def _decode(self, decoder: Any, data: bytes | str, kind: Any) -> Any:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            raise explain(error, self._tree(data), kind) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise ProtocolError("MALFORMED", f"found bytes that are not {self.name}: {error}") from None

    def _tree(self, data: bytes | str) -> object:
        """``data`` as builtins, for error messages; of a long message only its ``id``. None if it cannot be decoded."""
        try:
            return self._library.decode(data) if len(data) <= _TREE_MAX else {"id": self._ids.decode(data).id}
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError):
            return None

    def _refuse_repeated_keys(self, data: bytes | str, decoded: Any) -> None:
        """Refuse JSON with a repeated key, of which msgspec silently takes the last value.

        Msgpack is not checked: programs encode it from mappings, which cannot repeat a key. The exact search is slow, so a
        cheap test comes first: what was decoded is encoded again, which writes no key that was not there. The same number of
        colons then proves that no key was lost. The exact search is needed for data with explicit default values, which are
        not written again, and for data with escapes, which may stand for a colon.
        """
        if self._library is not msgspec.json:
            return
        raw = data.encode() if isinstance(data, str) else data
        if b"\\" in raw or raw.count(b":") != self.encode(decoded).count(b":"):
            refuse_repeated_keys(raw)


JSON = Encoding("ykactor.v1.json", msgspec.json)
MSGPACK = Encoding("ykactor.v1.msgpack", msgspec.msgpack)

#: By subprotocol, the preferred one first.
ENCODINGS = {encoding.name: encoding for encoding in (JSON, MSGPACK)}

#: The header of the answer that opens a websocket in which the daemon tells its term (EV-55).
TERM_HEADER = b"ykactor-term"


# ---- error messages


_QUANTITY = 'a whole number of base units, or text such as "500m"'


def explain(error: msgspec.ValidationError, tree: object, kind: Any) -> ProtocolError:
    """Convert an error of msgspec to a code, a path that names mapping keys, and what was found and expected.

    Args:
        error: raised when ``tree`` (or the bytes that it was decoded from) was converted to ``kind``.
        tree: the message as builtins; if None the error has less detail.
        kind: a message class or a union of them.
    """
    match = _MISTAKE.fullmatch(str(error))
    assert match is not None, "the pattern matches any text"
    text, path = match["text"].replace("`", ""), match["path"] or ""
    value = _value_at(tree, path)
    is_quantity = False
    if path.endswith("[...]"):
        path = path.removesuffix("[...]")
        is_quantity = path.endswith(_RESOURCE_FIELDS)
        items = value.items() if isinstance(value, dict) else ()
        for key, value in items:
            if not _converts(value, si.Quantity if is_quantity else str):
                path = f"{path}.{key}"
                break
    code, message, field = _verdict(text, value, kind)
    if is_quantity:
        code, message = "BAD_QUANTITY", message.replace("int | str", _QUANTITY)
    if field:
        path = f"{path}.{field}" if path else field
    request_id = tree.get("id", "") if isinstance(tree, dict) else ""
    return ProtocolError(code, message, path, request_id if isinstance(request_id, str) else "")


def _verdict(text: str, value: object, kind: Any) -> tuple[str, str, str]:
    """Code, message, and the name of the unknown or missing field (else empty), from msgspec's ``text``."""
    if text.startswith(_UNKNOWN_FIELD):
        return "UNKNOWN_FIELD", "found a field that does not exist here", text.removeprefix(_UNKNOWN_FIELD)
    if text.startswith(_MISSING_FIELD):
        return "MISSING_FIELD", _MISSING, text.removeprefix(_MISSING_FIELD)
    if text.startswith("Invalid value "):
        names = ", ".join(member.__struct_config__.tag for member in get_args(kind) or (kind,))
        return "UNKNOWN_TYPE", f"found {text.removeprefix('Invalid value ')[:60]}, expected one of {names}", ""
    if not text.startswith("Expected "):
        return ("OUT_OF_RANGE" if text.startswith("Integer ") else "WRONG_TYPE"), text, ""
    expected, _, found = text.removeprefix("Expected ").partition(", got ")
    if not found:
        found = repr(value) if isinstance(value, int) else "another value"
    return ("OUT_OF_RANGE" if "= " in expected else "WRONG_TYPE"), f"found {found}, expected {expected}", ""


def _value_at(tree: object, path: str) -> object:
    """The value at ``path``; a final ``[...]`` stands for the mapping itself. None if there is no such path in ``tree``.

    This happens if a key is repeated: msgspec reports the first value, and ``tree`` holds the last.
    """
    for index, name in _STEP.findall(path):
        if isinstance(tree, list) and index and int(index) < len(tree):
            tree = tree[int(index)]
        elif isinstance(tree, dict) and name:
            tree = tree.get(name)
        else:
            return None
    return tree


def _converts(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def refuse_repeated_keys(data: bytes | str) -> None:
    """Raise ``DUPLICATE_KEY`` if an object in ``data``, which is valid JSON, has the same key twice."""
    repeating: list[tuple[dict[str, object], str]] = []

    def on_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            repeating.append((mapping, _first_repeated(pairs)))
        return mapping

    tree = json.loads(data, object_pairs_hook=on_object)
    if repeating:
        # The last of them is still in the tree: an object that dropped it would repeat a key itself and end later.
        mapping, key = repeating[-1]
        parent = _path_to(mapping, tree, "")
        request_id = tree.get("id", "") if isinstance(tree, dict) else ""
        path = f"{parent}.{key}" if parent else key
        raise ProtocolError("DUPLICATE_KEY", "found this key twice, expected it once", path, str(request_id))


def _first_repeated(pairs: list[tuple[str, object]]) -> str:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("called for an object that repeats a key")


def _path_to(wanted: object, tree: object, path: str) -> str | None:
    """The path of the object ``wanted`` (compared by identity) in ``tree``, which is at ``path``; None if it is not in there."""
    if tree is wanted:
        return path
    children: list[tuple[str, object]] = []
    if isinstance(tree, dict):
        children = [(f"{path}.{key}" if path else key, child) for key, child in tree.items()]
    elif isinstance(tree, list):
        children = [(f"{path}[{index}]", child) for index, child in enumerate(tree)]
    places = (_path_to(wanted, child, place) for place, child in children)
    return next((place for place in places if place is not None), None)
