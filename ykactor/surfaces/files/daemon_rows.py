"""The rows of the daemon itself, beside those of partitions: configuration, registration, acts under way.

Some changes concern several partitions, whose turns become durable one after the other. So the daemon first writes what it is
about to do; if it ends in the middle, the next start finds this row and does it again (``recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ykactor.actors.journal import Journal
from ykactor.actors.outbox import Epochs, Outbox
from ykactor.actors.receipts import Receipt
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.facts import Audited
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY, Names
from ykactor.wire.si.codec import Encoding

#: Keys begin with the name of the partition; there is none with an empty name.
CONFIG, CHANGE, REGISTRATION = b'["","config"]', b'["","file"]', b'["","registration"]'
SWITCH, SWITCH_CHANGE = b'["","switch"]', b'["","switch change"]'
UNCONFIRMED = b'["","unconfirmed"]'
EPOCHS, CLOCK = b'["","epochs"]', b'["","clock"]'
#: How the keys of acts begin.
_ACT = b'["","act",'


class ChangeRow(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The last change of the configuration: what had been read of the queue file then, and who has sent the configuration.

    Attributes:
        checksum: of the text of the queue file that was read last (CF-12), also if another configuration is in force; "" if
            none was.
        rm_id: the resource manager that has sent the configuration in force; "" if it is from the queue file or an operator.
    """

    checksum: str = ""
    rm_id: str = ""


class UnconfirmedRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The way back from a configuration that awaits confirmation (CF-91); there is one from its transaction on until its end.

    Attributes:
        config: the configuration that it has replaced.
        rm_id: the resource manager that had sent that one, as of ``ChangeRow``.
        checksum: of the configuration that awaits confirmation.
        who: the operator who has put it into force.
        since_ns, until_ns: the Unix times at which the window begins and ends.
        boot_id, until_boot_ns: its end by the clock that nobody can set (``Boot``).
        event: the number of the newest event before.
    """

    config: SchedulerConfig
    rm_id: str
    checksum: str
    who: str
    since_ns: int
    until_ns: int
    boot_id: str
    until_boot_ns: int
    event: int


class ClockRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The time by which the daemon was ahead of the clock of the machine at its start; negative if it was behind."""

    ahead_ns: int


class RegistrationRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The registered resource manager.

    Attributes:
        rm_id: empty while partitions are being reset for another registration, or for none.
        encoding: the subprotocol of the messages that are kept.
        sequence: the number before that of the first message of this registration.
        partitions: those that it serves (``Names.listed``); none if an earlier version wrote the row.
    """

    rm_id: str
    encoding: str = ""
    sequence: int = 0
    partitions: tuple[str, ...] = ()


class EpochRow(Struct, frozen=True, forbid_unknown_fields=True):
    """An epoch of a resource manager (``Epochs``), for partitions (``Names.listed``)."""

    rm_id: str
    number: int
    partitions: tuple[str, ...]


class EpochRows(Struct, frozen=True, forbid_unknown_fields=True):
    """All of them: each row is a JSON object (``ykactor journal verify``)."""

    epochs: list[EpochRow]


#: The epochs as they are decoded: earlier versions wrote a number for each ``rmID``.
_EpochsByName = dict[str, int | list[EpochRow]]
#: The type of each kind of row.
_KINDS: dict[str | int, Any] = {
    "config": SchedulerConfig,
    "file": ChangeRow,
    "registration": RegistrationRow,
    "switch": SchedulerConfig,
    "switch change": ChangeRow,
    "unconfirmed": UnconfirmedRow,
    "clock": ClockRow,
    "epochs": _EpochsByName,
    "act": Audited,
    "request": Receipt,
}


class DaemonRows:
    """Writes these rows; nothing without a journal."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal

    def _note(self, key: bytes, row: Struct | None) -> None:
        if self._journal is not None:
            self._journal.note(key, None if row is None else msgspec.json.encode(row))

    # ---- the configuration

    @property
    def are_kept(self) -> bool:
        """True if there is a journal."""
        return self._journal is not None

    def begin_switch(self, config: SchedulerConfig, change: ChangeRow) -> None:
        """The partitions are about to change to another configuration."""
        self._note(SWITCH, config)
        self._note(SWITCH_CHANGE, change)

    def end_switch(self, in_force: SchedulerConfig, change: ChangeRow) -> None:
        """The partitions have changed to it, or none of them has and the change before it is still the last one."""
        self._note(CONFIG, in_force)
        self._note(CHANGE, change)
        self._note(SWITCH, None)
        self._note(SWITCH_CHANGE, None)

    def note_unconfirmed(self, row: UnconfirmedRow | None) -> None:
        """A configuration awaits confirmation, or none does."""
        self._note(UNCONFIRMED, row)

    async def forget_partition(self, name: PartitionName) -> None:
        """A partition has ended with everything in it: one that is added later begins anew, whatever its name is.

        To be called when its last turn was published. Also rows go that the partition does not know, because they are damaged.
        """
        if self._journal is not None:
            for key, _ in await self._journal.rows(name):
                self._journal.note(key, None)

    # ---- the registration

    def note_registration(self, outbox: Outbox[Encoding] | None, is_changing: bool) -> None:
        """The present registration; ``is_changing``: the partitions are about to be reset for another one."""
        if is_changing:
            self._note(REGISTRATION, RegistrationRow(""))
        elif outbox is None:
            self._note(REGISTRATION, None)
        else:
            self._note(REGISTRATION, _registration_row(outbox))

    def note_epochs(self, epochs: Epochs) -> None:
        """The highest epochs of resource managers; they stay when a registration ends."""
        rows = [EpochRow(rm_id, number, served.listed()) for (rm_id, served), number in epochs.highest.items()]
        self._note(EPOCHS, EpochRows(rows))

    # ---- the clock

    def note_clock(self, ahead_ns: int) -> None:
        """The daemon has started so far ahead of the clock of the machine."""
        self._note(CLOCK, ClockRow(ahead_ns))

    # ---- the audit

    def begin_act(self, number: int, interrupted: Audited) -> bytes:
        """An act is about to begin; ``interrupted`` is what the next daemon tells of it if this one does not. Returns its key."""
        key = _act_key(number)
        self._note(key, interrupted)
        return key

    def forget_act(self, key: bytes) -> None:
        """An act had no effect."""
        self._note(key, None)


def check(records: Mapping[bytes, bytes]) -> None:
    """Refuse rows of the daemon that this version does not know.

    Raises:
        UnreadableRowError: a row is damaged, or of a later version.
    """
    for key, data in records.items():
        try:
            kind = msgspec.json.decode(key, type=list[str | int])[1]
            if kind not in _KINDS:
                raise UnreadableRowError(f"row {key.decode()}: found the kind {kind}, expected one that this version knows")
            msgspec.json.decode(data, type=_KINDS[kind])
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
            raise UnreadableRowError(f"row {key.decode(errors='replace')}: {error}") from error


def begun_acts(records: Mapping[bytes, bytes]) -> dict[bytes, Audited]:
    """The acts among some records that were begun and not told, by their keys."""
    return {key: msgspec.json.decode(data, type=Audited) for key, data in records.items() if key.startswith(_ACT)}


def epochs_of(records: Mapping[bytes, bytes]) -> Epochs:
    """The epochs among some records. Earlier versions wrote them by ``rmID``, for all partitions."""
    found = Epochs()
    rows: list[EpochRow] = []
    for name, kept in msgspec.json.decode(records.get(EPOCHS, b"{}"), type=_EpochsByName).items():
        rows += [EpochRow(name, kept, ANY.listed())] if isinstance(kept, int) else kept
    found.highest = {(row.rm_id, Names.of(row.partitions)): row.number for row in rows}
    return found


def _registration_row(outbox: Outbox[Encoding]) -> RegistrationRow:
    return RegistrationRow(outbox.rm_id, outbox.encoding.name, outbox.first - 1, outbox.partitions.listed())


def _act_key(number: int) -> bytes:
    return b"%b%d]" % (_ACT, number)
