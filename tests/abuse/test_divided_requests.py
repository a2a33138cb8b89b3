"""Large requests are decoded in parts, as if they were decoded at once; one that is too large is refused by its length."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from costs import Calls
from msgspec import structs
from mutants import REQUESTS, Mutator

from ykactor.client.requests import SENT_BYTES_MAX, new_ids, parts_of
from ykactor.core.values.parts import paced
from ykactor.wire.si import codec, division
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, MSGPACK, Encoding
from ykactor.wire.si.division import VALUE_MAX
from ykactor.wire.si.lengths import ENTRIES_MAX
from ykactor.wire.si.protocol_error import ProtocolError

both = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=lambda encoding: encoding.name)


@pytest.fixture
def always_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PART_BYTES", -1)


def outcome(encoding: Encoding, data: bytes, *, in_parts: bool) -> object:
    """The request, or all of the error."""
    if not in_parts:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codec, "PART_BYTES", len(data))
            return outcome(encoding, data, in_parts=True)
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
def test_parts_change_nothing(encoding: Encoding, messages: list[dict[str, Any]], always_in_parts: None) -> None:
    """A mutant is the same request, or is refused, however it is decoded; of several mistakes another may be told."""
    mutator, rights = Mutator(random.Random(5), encoding, messages), 0
    for _ in range(1500):
        data = mutator.draw()
        whole, parted = outcome(encoding, data, in_parts=False), outcome(encoding, data, in_parts=True)
        if encoding is MSGPACK and not isinstance(whole, msgspec.Struct):
            whole = outcome(encoding, without_repeated_keys(data), in_parts=False)
        if isinstance(whole, msgspec.Struct):
            assert parted == whole, data
            rights += 1
        else:
            assert not isinstance(parted, msgspec.Struct), data
    assert rights > 200


def without_repeated_keys(data: bytes) -> bytes:
    """The same values in MessagePack, where the last one of a key counts; not of a key whose first value is wrong."""
    try:
        return msgspec.msgpack.encode(msgspec.msgpack.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError):
        return data


def test_every_list_of_entries_is_taken_out() -> None:
    """Also that of a request which somebody adds."""

    def lists(kind: type[msgspec.Struct], *way: str) -> Iterator[tuple[tuple[str, ...], type[msgspec.Struct]]]:
        for field in msgspec.structs.fields(kind):
            items = [item for item in get_args(field.type) if isinstance(item, type) and issubclass(item, msgspec.Struct)]
            if items and field.type != items[0] | None:
                yield (*way, field.name), items[0]
            elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                yield from lists(field.type, *way, field.name)

    found = {entry for kind in get_args(si.Request | si.OperatorRequest) for entry in lists(kind)}
    assert found == {tuple(entries) for entries in division.LISTS.values()}


def many_nodes(number: int, **last: object) -> dict[str, Any]:
    nodes: list[dict[str, object]] = [{"nodeID": f"n{index}", "action": "CREATE"} for index in range(number)]
    return {"type": "NodeRequest", "id": "r-9", "nodes": [*nodes, {"nodeID": "last", "action": "CREATE"} | last]}


@both
def test_a_large_request_is_decoded_with_pauses(encoding: Encoding) -> None:
    """A pause follows every 500 entries, and the decoded request equals the original."""
    data = encoding._library.encode(many_nodes(20_000))
    assert outcome(encoding, data, in_parts=True) == outcome(encoding, data, in_parts=False)
    assert len(list(paced(encoding.decoding_request(data)))) >= 40


@both
def test_no_step_of_a_large_request_does_something_for_each_entry(encoding: Encoding) -> None:
    """The calls of the longest step do not depend on the number of entries."""

    def longest_step(number: int) -> int:
        steps, counts = encoding.decoding_request(encoding._library.encode(many_nodes(number))), list[int]()
        while True:
            with Calls() as calls:
                ended = next(steps, None) is None
            counts.append(calls.count)
            if ended:
                return max(counts)

    assert longest_step(80_000) == longest_step(20_000)


@both
def test_a_mistake_in_the_last_entry_of_a_large_request(encoding: Encoding) -> None:
    """The error names the index in the message, and the same details as for a small request."""
    data = encoding._library.encode(many_nodes(20_000, schedulableResource={"vcore": 1, "memory": 0.5}))
    message = 'found float, expected a whole number of base units, or text such as "500m"'
    path = "nodes[20000].schedulableResource.memory"
    assert outcome(encoding, data, in_parts=True) == ("BAD_QUANTITY", message, path, "r-9")


@pytest.mark.parametrize(("name", "path"), [("nodeID", "nodes[15000].nodeID"), ("nodes", ""), ("id", "")])
def test_a_repeated_key_in_a_large_request(name: str, path: str) -> None:
    """The error names the entry."""
    data = JSON._library.encode(many_nodes(20_000))
    if name == "nodeID":
        data = data.replace(b'"n15000","action"', b'"x","nodeID":"n15000","action"')
    else:
        data = data[:-1] + b',"%b":%b}' % (name.encode(), b"[]" if name == "nodes" else b'"r-9"')
    found = outcome(JSON, data, in_parts=True)
    assert (found[0], *found[2:]) == ("DUPLICATE_KEY", path, "r-9")  # type: ignore[index]


def test_what_is_malformed_in_a_large_request_is_at_the_same_byte() -> None:
    data = JSON._library.encode(many_nodes(20_000)).replace(b'"n19000"', b'"n19000" 5')
    assert outcome(JSON, data, in_parts=True) == outcome(JSON, data, in_parts=False)


@both
@pytest.mark.parametrize("entry", [{}, 1, []])
def test_a_request_has_no_more_entries_than_allowed(encoding: Encoding, entry: object) -> None:
    """AP-138: they are counted before they are decoded."""
    many = {"type": "AllocationRequest", "id": "r-9", "releases": {"allocationsToRelease": [entry] * (9 * ENTRIES_MAX)}}
    message = f"found more than {ENTRIES_MAX} items, expected at most that"
    data = encoding._library.encode(many)
    assert outcome(encoding, data, in_parts=True) == ("OUT_OF_RANGE", message, "releases.allocationsToRelease", "r-9")


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
                "extraConfig": {"aa": "b" * (VALUE_MAX // 2)},
            },
            "extraConfig",
        ),
    ],
)
def test_no_part_of_a_request_is_larger_than_allowed(encoding: Encoding, message: dict[str, Any], path: str) -> None:
    """AP-138: what is decoded at once is bounded, but for a configuration."""
    found = outcome(encoding, encoding._library.encode(message), in_parts=True)
    assert found == ("OUT_OF_RANGE", f"found more than {VALUE_MAX} bytes, expected at most that", path, "r-9")


@both
@pytest.mark.parametrize(("value", "path"), [(5, "nodes"), ({"a": "b" * 300_000}, "nodes")])
def test_a_list_of_entries_that_is_none(encoding: Encoding, value: object, path: str, always_in_parts: None) -> None:
    data = encoding._library.encode({"type": "NodeRequest", "id": "r-9", "nodes": value})
    assert outcome(encoding, data, in_parts=True) == ("WRONG_TYPE", "found another value, expected a list", path, "r-9")


def test_the_last_value_of_a_repeated_key_counts(always_in_parts: None) -> None:
    """The last value counts, like in msgspec, which allows this in MessagePack only."""
    encode = MSGPACK._library.encode
    node = encode({"nodeID": "n", "action": "CREATE"})
    first, second = b"\x93" + node * 3, b"\x92" + node * 2
    for values in [(first, second), (first, b"\x90"), (b"\x90", second)]:
        data = b"\x83" + encode("type") + encode("NodeRequest") + b"".join(encode("nodes") + value for value in values)
        assert outcome(MSGPACK, data, in_parts=True) == outcome(MSGPACK, data, in_parts=False)


def test_a_large_request_in_the_wrong_encoding() -> None:
    """The error is the same as for a small request."""
    data = JSON._library.encode(many_nodes(20_000))
    assert outcome(MSGPACK, data, in_parts=True)[0] == "WRONG_TYPE"  # type: ignore[index]
    assert outcome(JSON, MSGPACK._library.encode(many_nodes(20_000)), in_parts=True)[0] == "MALFORMED"  # type: ignore[index]


@both
def test_clients_split_what_is_too_large(encoding: Encoding) -> None:
    """The parts have all entries in the order in which they are handled, and only the last has the id."""
    allocations = [si.Allocation(allocation_key=f"{number}" + "x" * 200, application_id="a") for number in range(9000)]
    releases = [si.AllocationRelease(application_id="a", allocation_key=f"{number}" + "x" * 200) for number in range(2000)]
    ended = si.AllocationReleasesRequest(allocations_to_release=releases)
    request = si.AllocationRequest(id="mine", allocations=allocations, releases=ended)
    split = list(parts_of(request, new_ids(), encoding.encode))
    parts = [part.request for part in split]
    assert max(len(part.data) for part in split) <= SENT_BYTES_MAX
    assert all(encoding.decode_request(part.data) == structs.replace(part.request, id=part.id) for part in split)
    assert [entry for part in parts for entry in part.allocations] == allocations
    assert [entry for part in parts for entry in part.releases.allocations_to_release] == releases
    first_release = next(index for index, part in enumerate(parts) if part.releases.allocations_to_release)
    assert not any(part.allocations for part in parts[first_release + 1 :])
    assert [part.id for part in parts] == [""] * (len(parts) - 1) + ["mine"]


@both
@pytest.mark.parametrize("request_", [si.NodeRequest(), si.UpdateConfigurationRequest(config="x" * 2 * SENT_BYTES_MAX)])
def test_a_request_without_entries_is_not_split(encoding: Encoding, request_: si.Request) -> None:
    """The request is encoded once, with the id under which it is sent."""
    encoded: list[msgspec.Struct] = []

    def encode(message: msgspec.Struct) -> bytes:
        encoded.append(message)
        return encoding.encode(message)

    assert list(parts_of(request_, iter(["id"]), encode)) == [(request_, "id", encoding.encode(*encoded))]
    assert encoded == [structs.replace(request_, id="id")]
