"""Large requests are decoded in slices, as if they were decoded as a whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs
from mutants import REQUESTS, Mutator

from ykactor.wire.si import codec, cutting
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, MSGPACK, Encoding, ProtocolError
from ykactor.wire.si.lengths import ENTRIES_MAX
from ykactor.wire.si.syntax import VALUE_MAX

both = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=lambda encoding: encoding.name)


@pytest.fixture
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is cut into slices of one or two entries."""
    monkeypatch.setattr(codec, "SLICE_BYTES", -1)
    monkeypatch.setattr(cutting, "SLICE_BYTES", 60)
    monkeypatch.setattr(cutting, "PART_MAX", 2)


def outcome(encoding: Encoding, data: bytes, *, sliced: bool) -> object:
    """The request, or all of the error."""
    if not sliced:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codec, "SLICE_BYTES", len(data))
            return outcome(encoding, data, sliced=True)
    try:
        return encoding.decode_request(data)
    except ProtocolError as error:
        return error.code, error.message, error.path, error.request_id


def with_many_entries(message: dict[str, Any]) -> dict[str, Any]:
    """Seven times as many."""
    return {
        key: 7 * value if isinstance(value, list) else with_many_entries(value) if isinstance(value, dict) else value
        for key, value in message.items()
    }


@both
@pytest.mark.parametrize("messages", [REQUESTS, [with_many_entries(message) for message in REQUESTS]], ids=["few", "many"])
def test_slices_change_nothing(encoding: Encoding, messages: list[dict[str, Any]], tiny_slices: None) -> None:
    """A mutant is the same request, or has the same error with the same path, however it is decoded."""
    mutator, rights = Mutator(random.Random(5), encoding, messages), 0
    for _ in range(1500):
        data = mutator.draw()
        if len(data) > VALUE_MAX:  # a large value is told before other mistakes
            continue
        whole, sliced = outcome(encoding, data, sliced=False), outcome(encoding, data, sliced=True)
        if "recursion" in f"{whole!s}{sliced!s}"[:300]:  # how deep a message may be depends on how deep the program is
            continue
        assert sliced == whole, data
        rights += isinstance(whole, msgspec.Struct)
    assert rights > 200


def test_every_list_of_entries_is_cut() -> None:
    """Also that of a request which somebody adds."""

    def lists(kind: type[msgspec.Struct], *way: str) -> Iterator[tuple[tuple[str, ...], type[msgspec.Struct]]]:
        for field in structs.fields(kind):
            items = [item for item in get_args(field.type) if isinstance(item, type) and issubclass(item, msgspec.Struct)]
            if items and field.type != items[0] | None:
                yield (*way, field.name), items[0]
            elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                yield from lists(field.type, *way, field.name)

    found = {entry for kind in get_args(si.Request | si.OperatorRequest) for entry in lists(kind)}
    assert found == {tuple(entries) for entries in cutting.LISTS.values()}


def many_nodes(number: int, **last: object) -> dict[str, Any]:
    nodes: list[dict[str, object]] = [{"nodeID": f"n{index}", "action": "CREATE"} for index in range(number)]
    return {"type": "NodeRequest", "id": "r-9", "nodes": [*nodes, {"nodeID": "last", "action": "CREATE"} | last]}


@both
def test_a_large_request_is_decoded_with_pauses(encoding: Encoding) -> None:
    """There is one for every 500 entries, and at the end the request is as it was."""
    data = encoding._library.encode(many_nodes(20_000))
    assert outcome(encoding, data, sliced=True) == outcome(encoding, data, sliced=False)
    pauses = list(encoding.decoding_request(data))
    assert len(pauses) >= 40


@both
def test_a_mistake_in_the_last_entry_of_a_large_request(encoding: Encoding) -> None:
    """Its index is that in the message, and its details are those of a small one."""
    data = encoding._library.encode(many_nodes(20_000, schedulableResource={"vcore": 1, "memory": 0.5}))
    found = outcome(encoding, data, sliced=True)
    message = 'found float, expected a whole number of base units, or text such as "500m"'
    assert found == ("BAD_QUANTITY", message, "nodes[20000].schedulableResource.memory", "r-9")


def test_a_repeated_key_in_a_large_request() -> None:
    """The last one is told, wherever it is."""
    data = JSON._library.encode(many_nodes(20_000))
    for number in (3, 15_000):
        data = data.replace(b'"n%d","action"' % number, b'"x","nodeID":"n%d","action"' % number)
    assert outcome(JSON, data, sliced=True) == (
        "DUPLICATE_KEY",
        "found this key twice, expected it once",
        "nodes[15000].nodeID",
        "r-9",
    )


def test_what_is_malformed_in_a_large_request_is_at_the_same_byte() -> None:
    """Though most of what is before it has been cut out by then."""
    data = JSON._library.encode(many_nodes(20_000)).replace(b'"n19000"', b'"n19000" 5')
    assert outcome(JSON, data, sliced=True) == outcome(JSON, data, sliced=False)


@both
def test_a_request_has_no_more_entries_than_allowed(encoding: Encoding) -> None:
    """AP-138: those beyond are not looked at."""
    many = {"type": "AllocationRequest", "id": "r-9", "releases": {"allocationsToRelease": [{}] * (ENTRIES_MAX + 1)}}
    found = outcome(encoding, encoding._library.encode(many), sliced=True)
    message = f"found more than {ENTRIES_MAX} items, expected at most that"
    if encoding is JSON:
        assert found == ("OUT_OF_RANGE", message, "releases.allocationsToRelease", "r-9")
    else:  # so few bytes are decoded at once
        assert found == outcome(encoding, encoding._library.encode(many), sliced=False)


@both
@pytest.mark.parametrize(
    ("message", "path"),
    [
        (many_nodes(3, attributes={"a": "b" * VALUE_MAX}), "nodes[3]"),
        ({"type": "UpdateConfigurationRequest", "id": "r-9", "extraConfig": {"a": "b" * VALUE_MAX}}, "extraConfig"),
        ({"type": "UpdateConfigurationRequest", "id": "r-9", "ifChecksum": "b" * VALUE_MAX}, "ifChecksum"),
        (
            {
                "type": "RegisterResourceManagerRequest",
                "id": "r-9",
                "buildInfo": {"a": "b" * (VALUE_MAX // 2)},
                "extraConfig": {"a": "b" * (VALUE_MAX // 2)},
            },
            "extraConfig",
        ),
    ],
)
def test_no_part_of_a_request_is_larger_than_allowed(encoding: Encoding, message: dict[str, Any], path: str) -> None:
    """AP-138: what is decoded at once is bounded, but for a configuration."""
    found = outcome(encoding, encoding._library.encode(message), sliced=True)
    assert found == ("OUT_OF_RANGE", f"found more than {VALUE_MAX} bytes, expected at most that", path, "r-9")


@pytest.mark.parametrize(
    ("before", "path"),
    [(b"{", ""), (b'"id"', ""), (b":", ""), (b',"n', "type"), (b"[", "nodes"), (b"}", "nodes[0]"), (b"]", "nodes[0]")],
)
def test_blanks_have_a_limit_too(before: bytes, path: str) -> None:
    """Wherever they are: so many are never looked at at once."""
    data = b'{"type":"NodeRequest","nodes":[{"nodeID":"n","action":"CREATE"}],"id":"r-9"}'
    blank = data.replace(before, b" " * (VALUE_MAX + 1) + before, 1)
    found = outcome(JSON, blank, sliced=True)
    assert found == ("OUT_OF_RANGE", f"found more than {VALUE_MAX} bytes, expected at most that", path, "r-9")


@both
def test_a_large_message_has_few_fields(encoding: Encoding) -> None:
    """Else to go through them would take long."""
    many = {f"field-{number}": "x" * 3000 for number in range(101)}
    message = "found more than 100 fields, expected at most that"
    for path, fields in ("", many), ("releases", {"releases": many}):
        data = encoding._library.encode({"type": "AllocationRequest", "id": "r-9"} | fields)
        assert outcome(encoding, data, sliced=True) == ("OUT_OF_RANGE", message, path, "r-9")


def test_the_last_value_of_a_repeated_key_counts(tiny_slices: None) -> None:
    """As for msgspec, which allows this in MessagePack only."""
    encode = MSGPACK._library.encode
    node = encode({"nodeID": "n", "action": "CREATE"})
    first, second = b"\x93" + node * 3, b"\x92" + node * 2
    for values in [(first, second), (first, b"\x90"), (b"\x90", second)]:
        data = b"\x83" + encode("type") + encode("NodeRequest") + b"".join(encode("nodes") + value for value in values)
        assert outcome(MSGPACK, data, sliced=True) == outcome(MSGPACK, data, sliced=False)


@both
def test_a_configuration_of_all_characters(encoding: Encoding) -> None:
    """No character is cut, however it is written: as it is, as an escape, or as two of them."""
    rng = random.Random(1)
    text = "".join(rng.choice(("a", '"', "\\", "\n", "\0", "ä", "\ud7ff", "\U0010ffff", "b" * 100)) for _ in range(60_000))
    request = si.UpdateConfigurationRequest(config=text)
    assert encoding.decode_request(encoding.encode(request)) == request
    if encoding is JSON:
        escaped = JSON.encode(si.UpdateConfigurationRequest(config="*")).decode().replace("*", "".join(map(_escaped, text)))
        assert JSON.decode_request(escaped) == request


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


@pytest.mark.parametrize("wrong", [rb"\ud800", rb"\udc00", rb"\x", b"\xff", b"\x80", b"\xc3"])
def test_a_configuration_with_a_wrong_character(wrong: bytes) -> None:
    """It is refused as in a small request."""
    data = b'{"type":"UpdateConfigurationRequest","id":"r-9","config":"%b%b"}' % (b"a" * 300_000, wrong)
    found = outcome(JSON, data, sliced=True)
    assert found == outcome(JSON, data, sliced=False)
    assert found[0] == "MALFORMED"  # type: ignore[index]


def test_a_large_request_in_the_wrong_encoding() -> None:
    """It is refused as a small one is."""
    data = JSON._library.encode(many_nodes(20_000))
    assert outcome(MSGPACK, data, sliced=True)[0] == "WRONG_TYPE"  # type: ignore[index]
    assert outcome(JSON, MSGPACK._library.encode(many_nodes(20_000)), sliced=True)[0] == "MALFORMED"  # type: ignore[index]
