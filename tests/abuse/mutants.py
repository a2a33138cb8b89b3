"""Messages of clients with mistakes: right ones are changed as trees, then as bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec

from ykactor.wire.si.codec import JSON, Encoding

#: Right messages of resource managers, followers and operators. The names are those of nothing that exists, so that a mutant
#: which is still right changes nothing either.
REQUESTS: list[dict[str, Any]] = [
    {"type": "RegisterResourceManagerRequest", "rmID": "nobody", "buildInfo": {"a": "b"}, "config": "", "resumeFrom": 7},
    {
        "type": "NodeRequest",
        "nodes": [{"nodeID": "none", "action": "UPDATE", "schedulableResource": {"vcore": 4, "memory": "2Gi"}}],
    },
    {
        "type": "ApplicationRequest",
        "new": [
            {"applicationID": "none", "ugi": {"user": "", "groups": ["g"]}, "tags": {"a": "b"}, "placeholderAsk": {"vcore": 1}}
        ],
        "remove": [{"applicationID": "none"}],
    },
    {
        "type": "AllocationRequest",
        "allocations": [
            {
                "allocationKey": "none",
                "applicationID": "none",
                "resourcePerAlloc": {"vcore": 1, "memory": "1Gi"},
                "priority": 3,
                "allocationTags": {"zone": "a"},
                "preemptionPolicy": {"allowPreemptSelf": True},
            }
        ],
        "releases": {"allocationsToRelease": [{"applicationID": "none", "terminationType": "STOPPED_BY_RM"}]},
    },
    {"type": "UpdateConfigurationRequest", "config": "partitions: 3", "extraConfig": {"log.level": "x"}, "ifChecksum": "none"},
    {"type": "TerminateApplication", "applicationID": "none", "ugi": {"user": "alice"}},
    {"type": "MoveApplication", "applicationID": "none", "queueName": "root.none"},
    {"type": "SetQueueQuotas", "queueName": "root.none", "tags": {"namespace.resourcemaxapps": "1"}},
    {"type": "PredicatesResponse", "forget": [{"predicate": "none"}], "answers": [{"predicate": "none", "nodeID": "none"}]},
    {"type": "ScheduleRequest", "steps": 1},
]
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"type": "Subscribe"},
    {"type": "Subscribe", "from": 0, "queues": ["root"], "kinds": ["APP", "NODE_ALLOC"]},
    {"type": "Subscribe", "from": "now", "partitions": ["default"], "applications": ["none"], "instance": "none"},
]
#: A mutant of ``HoldQueue`` has no effect unless three of its values change to the right ones.
OPERATIONS: list[dict[str, Any]] = [
    {"type": "NodeRequest", "id": "1", "nodes": [{"nodeID": "none", "action": "DRAIN_NODE"}]},
    {"type": "TerminateApplication", "applicationID": "none", "partitionName": "none"},
    {"type": "MoveApplication", "id": "2", "applicationID": "none", "queueName": "root.none"},
    {"type": "HoldApplication", "applicationID": "none", "held": True},
    {"type": "HoldQueue", "queueName": "none", "partitionName": "none", "held": False},
    {"type": "CancelAllocation", "applicationID": "none", "allocationKey": "none"},
    {"type": "SetPriority", "applicationID": "none", "allocationKey": "none", "priority": 3},
    {"type": "ExpectNoAllocations", "allocationKeys": ["none"]},
    {"type": "UpdateConfigurationRequest", "config": "partitions: 3", "ifChecksum": "none"},
    {"type": "ReleaseResourceManager", "rmID": "nobody"},
]
_TEXTS = (
    "",
    "root",
    "*",
    "a" * 4096,
    "a" * 4097,
    "ä" * 3000,
    "\0",
    "\u2028",
    "\ud7ff",
    "\U0010ffff",
    "a.b..c",
    "9Ei",
    "-1",
    "1e3",
)
_NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308, 5e-324)
#: Depths around the limit of recursion, and far beyond it.
_DEPTHS = (3, 60, 70, 400, *range(930, 1010, 7), 5000)
#: Text in the place of a value, which ``_spliced`` replaces by bytes that are no value of the encoding.
_MARK = "\x01mark\x01"
_JSON_PIECES = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"01",
    b"1" * 5000,
    b"\xff\xfe",
    b'"\\ud800"',
    b'"\\u0000"',
    b"{",
    b"]",
    b'"',
    b",",
    b"",
)
_MSGPACK_PIECES = (
    *(b"\xc1", b"\xca\x7f\xc0\x00\x00", b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff"),
    *(b"\xdf\xff\xff\xff\xff", b"\xd4\x01a", b"\xd6\xff\xff\xff\xff\xff", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xa2\xff\xfe"),
    *(b"\x81\x90\x90", b"\x81\xc0\xc0", b"\xc6\xff\xff\xff\xff", b"\xcf" + b"\xff" * 8),
)


class Mutator:
    """Makes mutants of the messages of one path in one encoding."""

    def __init__(self, rng: random.Random, encoding: Encoding, messages: list[dict[str, Any]]) -> None:
        self._rng = rng
        self._is_json = encoding is JSON
        self._messages = messages
        self._encode: Callable[[Any], bytes] = msgspec.json.encode if self._is_json else msgspec.msgpack.encode
        self._pieces = _JSON_PIECES if self._is_json else _MSGPACK_PIECES

    def draw(self) -> bytes:
        """One mutant; its ``id`` may be there, and may be of any kind."""
        rng = self._rng
        tree = json.loads(json.dumps(rng.choice(self._messages)))
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
            self._change(tree)
        data = self._spliced(self._encode(tree))
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            data = self._broken(data)
        return data

    # ---- as a tree

    def _change(self, tree: Any) -> None:
        """Change one thing somewhere in a mapping or list."""
        rng = self._rng
        while True:
            inner = [child for child in (tree.values() if isinstance(tree, dict) else tree) if isinstance(child, dict | list)]
            if not inner or rng.random() < 0.35:
                break
            tree = rng.choice(inner)
        places = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        match rng.randrange(6):
            case 0 if isinstance(tree, dict):
                tree[rng.choice(("id", "colour", "type", "nodes", "", "a" * 5000, "\0"))] = self._value()
            case 1 if isinstance(tree, list):
                tree += [self._value()] if rng.random() < 0.7 else [rng.choice(_TEXTS[:4])] * rng.choice((70, 5000))
            case 2 if places:
                del tree[rng.choice(places)]
            case 3 if places and isinstance(tree, dict):
                place = rng.choice(places)
                tree[f"{place}s"] = tree.pop(place)
            case _ if places:
                tree[rng.choice(places)] = self._value()

    def _value(self) -> Any:
        rng = self._rng
        match rng.randrange(7):
            case 0:
                return rng.choice(_NUMBERS)
            case 1:
                return rng.choice(_TEXTS)
            case 2:
                return rng.choice((None, True, False, [], {}, [[]], {"": {}}))
            case 3:
                return {f"k{number}": rng.choice(_TEXTS[:4]) for number in range(rng.choice((1, 3, 100)))}
            case 4:
                return json.loads(json.dumps(rng.choice(self._messages)))
            case _:
                return _MARK

    # ---- as bytes

    def _spliced(self, data: bytes) -> bytes:
        """The marks replaced by bytes that no encoder writes."""
        return data.replace(self._encode(_MARK), self._nested() if self._rng.random() < 0.2 else self._rng.choice(self._pieces))

    def _nested(self) -> bytes:
        depth = self._rng.choice(_DEPTHS)
        if self._is_json:
            return self._rng.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth))
        return self._rng.choice((b"\x91" * depth + b"\xc0", b"\x81\xa1a" * depth + b"\xc0", b"\x91" * depth))

    def _broken(self, data: bytes) -> bytes:
        rng = self._rng
        start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(7):
            case 0:
                return data[:start]
            case 1:
                return data + self._encode(rng.choice(self._messages))
            case 2:
                return data[:start] + rng.randbytes(rng.choice((1, 2, 9))) + data[start + 1 :]
            case 3:
                return data[:start] + rng.choice(self._pieces) + data[start:]
            case 4:
                return data[:end] + data[start:]  # among others, keys are repeated
            case 5:
                return self._repeated_key(data)
            case _:
                return data[:start] + data[end:]

    def _repeated_key(self, data: bytes) -> bytes:
        """The first key twice, with different values."""
        if self._is_json:
            return data.replace(b'{"', b'{"type":' + self._rng.choice((b'"NodeRequest"', b"5", self._nested())) + b',"', 1)
        return bytes([data[0] + 1]) + b"\xa4type\xc0" + data[1:] if data[:1] and 0x80 <= data[0] < 0x8F else data
