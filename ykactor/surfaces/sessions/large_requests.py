"""Reads requests. One with a large configuration is read by a separate process, so that nobody waits for it."""

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TypeVar, cast

import msgspec
import trio
from msgspec import Struct, structs

from ykactor.actors.driving import drive, pause
from ykactor.core.values.parts import Steps, finished
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, MSGPACK, Encoding
from ykactor.wire.si.lengths import REQUEST_MAX, size_of
from ykactor.wire.si.protocol_error import ProtocolError

R = TypeVar("R", bound=si.Request | si.OperatorRequest)

#: A method of an encoding that decodes a kind of requests.
Decoding = Callable[[Encoding, bytes | str], Steps[R]]

#: The time limit of the process.
READ_S = 60.0
_PART_BYTES = 2**18
_NOT_READ = "the process that reads a large request failed"


class _Found(Struct, tag=True):
    """A request: encoded, without its configuration, which follows."""

    request: bytes


class _Refused(Struct, tag=True):
    """The fields of a ``ProtocolError``."""

    code: str
    message: str
    path: str
    request_id: str


_outcomes = msgspec.msgpack.Decoder(_Found | _Refused)
_SIZE_BYTES = 4


async def read_request(decoding: Decoding[R], encoding: Encoding, message: bytes | str) -> R:
    """The request of a message, with pauses.

    Args:
        decoding: a method of ``Encoding``.

    Raises:
        ProtocolError: it is wrong, or has more than ``REQUEST_MAX`` bytes and no configuration.
    """
    if size_of(message) <= REQUEST_MAX:
        return await drive(decoding(encoding, message))
    raw = message.encode() if isinstance(message, str) else message
    try:
        return await _received(decoding, await in_helper_process(_read, raw, encoding.name, decoding.__name__, limit_s=READ_S))
    except trio.TooSlowError:
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: it took longer than {READ_S:g} s", "config") from None
    except (HelperProcessError, ValueError) as error:  # its output is wrong if another version was installed meanwhile
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error}", "config") from None


async def _received(decoding: Decoding[R], data: bytes) -> R:
    start = _SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "big")
    outcome = _outcomes.decode(data[_SIZE_BYTES:start])
    if isinstance(outcome, _Refused):
        raise ProtocolError(outcome.code, outcome.message, outcome.path, outcome.request_id)
    request = finished(decoding(MSGPACK, outcome.request))
    decode, parts = getincrementaldecoder("utf-8")().decode, list[str]()
    for at in range(start, len(data), _PART_BYTES):
        parts.append(decode(data[at : at + _PART_BYTES]))
        await pause()
    assert isinstance(request, si.UpdateConfigurationRequest | si.RegisterResourceManagerRequest), "it has a configuration"
    return cast("R", structs.replace(request, config="".join(parts)))


def _read(data: bytes, encoding_name: str, decoding_name: str) -> bytes:
    """The outcome of a message, followed by its configuration."""
    text = ""
    outcome: _Found | _Refused
    try:
        request = finished(getattr(Encoding, decoding_name)(ENCODINGS[encoding_name], data))
        text = getattr(request, "config", "")
        if not text:
            found = f"found a request of {len(data)} bytes without a configuration"
            raise ProtocolError("OUT_OF_RANGE", f"{found}, expected at most {REQUEST_MAX}: split it", "", request.id)
        outcome = _Found(MSGPACK.encode(structs.replace(request, config="")))
    except ProtocolError as error:
        outcome = _Refused(error.code, error.message, error.path, error.request_id)
    head = msgspec.msgpack.encode(outcome)
    return len(head).to_bytes(_SIZE_BYTES, "big") + head + text.encode()
