"""The ConfigMaps ``yunikorn-defaults`` and ``yunikorn-configs``: the queue file, and settings of the adapter."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping

from msgspec import structs

from ykactor.kubernetes.gangs import PlaceholderSettings
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import ConfigMap

#: Later ones win.
_NAMES = ("yunikorn-defaults", "yunikorn-configs")
_QUEUES, _QUEUES_GZ = "queues.yaml", "queues.yaml.gz"
_IMAGE, _USER = "service.placeholderImage", "service.placeholderRunAsUser"
_GROUP, _FS_GROUP, _QPS = "service.placeholderRunAsGroup", "service.placeholderFsGroup", "kubernetes.qps"
_BIND_TIMEOUT = "service.volumeBindTimeout"
_KNOWN = frozenset({_QUEUES, _QUEUES_GZ, _IMAGE, _USER, _GROUP, _FS_GROUP, _QPS, _BIND_TIMEOUT})
#: Bytes of a queue file.
TEXT_MAX = 16 << 20
_NUMBER_MAX = 2**31 - 1
#: Settings that are numbers, with the least one.
_LEAST = {_USER: 0, _GROUP: 0, _FS_GROUP: 0, _QPS: 1}
BIND_TIMEOUT_S = 600.0
#: As Go writes durations: 1h30m, 90s, 1.5m.
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|m|s)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Configuration:
    """The newest ConfigMaps and what they say together.

    Attributes:
        settings: how placeholder pods are made.
        qps: requests per second to the API server; None if nothing is said.
        bind_timeout_s: how long a placed pod waits for its volumes.
        in_flight: configurations that the daemon has not answered, and for which applications wait.
    """

    def __init__(self) -> None:
        self._maps: dict[str, tuple[Ref, dict[str, str]]] = {}
        self._sent = ""
        #: True while the daemon keeps a queue file because another one awaits confirmation (CF-91).
        self._is_late = False
        self.settings = PlaceholderSettings()
        self.qps: int | None = None
        self.bind_timeout_s = BIND_TIMEOUT_S
        self.in_flight = 0

    def take(self, name: str, found: ConfigMap | None) -> list[str]:
        """A ConfigMap is new, has changed or is gone (None); returns complaints. Others than the two are ignored."""
        if name not in _NAMES:
            return []
        complaints = list[str]()
        if found is None:
            self._maps.pop(name, None)
        else:
            self._maps[name] = Ref(found.metadata.namespace, name), _readable(found, complaints)
        self._read_settings()
        return complaints

    def text(self) -> str:
        """The queue file; "" if none is given, so that the daemon keeps its own."""
        return self._value(_QUEUES)

    def begin_registration(self) -> str:
        """The queue file that a fresh registration brings."""
        self.in_flight, self._is_late = 0, False
        self._sent = self.text()
        return self._sent

    def begin_again(self, *, is_late: bool) -> str:
        """The newest queue file, after a refusal because another configuration awaits confirmation; "" if nothing has to be sent.

        It may take a day until it is answered, so applications do not wait for it.

        Args:
            is_late: True if the one that is refused was sent to wait for the confirmation, so the daemon keeps none any more.
        """
        if is_late:
            self._is_late = False
        else:
            self.in_flight = max(0, self.in_flight - 1)
        if self._is_late:
            return ""
        self._sent = self.text()
        self._is_late = bool(self._sent)
        return self._sent

    def begin_change(self) -> bool:
        """True if the queue file is another one than the daemon was told last, and has to be sent now: only one waits there."""
        text = self.text()
        if not text or text == self._sent or self._is_late:
            return False
        self._sent = text
        self.in_flight += 1
        return True

    def end_change(self) -> None:
        """The daemon has answered a queue file."""
        if self._is_late:  # answers come in the order of the requests
            self._is_late = False
        else:
            self.in_flight = max(0, self.in_flight - 1)

    def ref(self, name: str) -> Ref:
        """The ConfigMap of this name."""
        return self._maps[name][0] if name in self._maps else Ref("", name)

    def refs(self) -> Iterator[Ref]:
        """The ConfigMaps that are known."""
        return (ref for ref, _ in self._maps.values())

    def source(self) -> str:
        """The name of the ConfigMap that has the queue file."""
        return next((name for name in reversed(_NAMES) if _QUEUES in self._maps.get(name, (None, {}))[1]), _NAMES[-1])

    def _value(self, key: str) -> str:
        return next((self._maps[name][1][key] for name in reversed(_NAMES) if key in self._maps.get(name, (None, {}))[1]), "")

    def _read_settings(self) -> None:
        numbers = {key: int(self._value(key)) for key in _LEAST if self._value(key)}
        default = PlaceholderSettings()
        self.settings = structs.replace(
            default,
            image=self._value(_IMAGE) or default.image,
            run_as_user=numbers.get(_USER, default.run_as_user),
            run_as_group=numbers.get(_GROUP, default.run_as_group),
            fs_group=numbers.get(_FS_GROUP, default.fs_group),
        )
        self.qps = numbers.get(_QPS)
        self.bind_timeout_s = _seconds(self._value(_BIND_TIMEOUT)) or BIND_TIMEOUT_S


def _readable(found: ConfigMap, complaints: list[str]) -> dict[str, str]:
    """The known values of a ConfigMap that can be read, the queue file uncompressed; the names of others in one complaint."""
    values = {key: value for key, value in found.data.items() if key in _KNOWN and value}
    compressed: Mapping[str, str] = {**found.data, **found.binary_data}
    if _QUEUES_GZ in compressed and _QUEUES not in values:
        try:
            values[_QUEUES] = _unpacked(compressed[_QUEUES_GZ])
        except (zlib.error, ValueError) as error:
            complaints.append(f"{_QUEUES_GZ}: {error}, expected a queue file that is compressed with gzip, in base64")
    values.pop(_QUEUES_GZ, None)
    for key, least in _LEAST.items():
        if key in values and not _is_number(values[key], least):
            complaints.append(f"{key}: found {values.pop(key)[:40]!r}, expected a number from {least} to {_NUMBER_MAX}")
    if _BIND_TIMEOUT in values and not _seconds(values[_BIND_TIMEOUT]):
        complaints.append(f"{_BIND_TIMEOUT}: found {values.pop(_BIND_TIMEOUT)[:40]!r}, expected a duration such as 10m or 1m30s")
    others = sorted({*found.data, *found.binary_data} - _KNOWN)
    if others:
        complaints.append(f"settings without effect here: {', '.join(others)[:500]}")
    return values


def _is_number(text: str, least: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= _NUMBER_MAX


def _seconds(text: str) -> float:
    """A duration in seconds; 0 for one that cannot be read."""
    parts = _DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return 0.0
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _unpacked(text: str) -> str:
    """Raises ValueError beyond ``TEXT_MAX``."""
    unpacking = zlib.decompressobj(wbits=31)
    data = unpacking.decompress(b64decode(text, validate=True), TEXT_MAX + 1)
    if len(data) > TEXT_MAX or not unpacking.eof:
        raise ValueError(f"found more than {TEXT_MAX} bytes or a part of a file only")
    return data.decode()
