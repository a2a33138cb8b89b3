"""The rows of the daemon itself, also those that an earlier version wrote."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from ykactor.actors.outbox import Epochs, Outbox
from ykactor.core.values.names import ANY, Names
from ykactor.surfaces.files.daemon_rows import EPOCHS, REGISTRATION, DaemonRows, RegistrationRow, epochs_of
from ykactor.surfaces.files.recovery import restored_outbox
from ykactor.wire.si.codec import JSON

GPU = Names.of(["gpu", "tpu"])


def test_epochs_come_back() -> None:
    """SC-158: with their partitions, in the order of the last registrations."""
    written: dict[bytes, bytes] = {}
    epochs = Epochs()
    epochs.raise_to(7, "rm-2", GPU)
    epochs.raise_to(3, "rm-1", ANY)
    DaemonRows(cast("Any", SimpleNamespace(note=written.__setitem__))).note_epochs(epochs)
    assert list(epochs_of(written).highest.items()) == list(epochs.highest.items())
    assert epochs_of({}).highest == {}


def test_epochs_of_an_earlier_version() -> None:
    """SC-158: they were for all partitions."""
    assert epochs_of({EPOCHS: b'{"rm-1": 7, "rm-2": 9}'}).highest == {("rm-1", ANY): 7, ("rm-2", ANY): 9}


def restored(row: RegistrationRow) -> Outbox[Any]:
    recovered = SimpleNamespace(registration=row, partitions={"default": 0, "Tpu": 0}, messages=[], last_message=0)
    outbox = restored_outbox(cast("Any", recovered), None, 0)
    assert outbox is not None
    return outbox


def test_what_a_registration_serves_comes_back() -> None:
    """SE-28: its partitions; of an earlier version, which did not note them, all that there are."""
    for partitions in (ANY, GPU):
        written: dict[bytes, bytes] = {}
        rows = DaemonRows(cast("Any", SimpleNamespace(note=written.__setitem__)))
        rows.note_registration(Outbox("rm-1", JSON, partitions=partitions), is_changing=False)
        assert restored(msgspec.json.decode(written[REGISTRATION], type=RegistrationRow)).partitions == partitions
    assert restored(RegistrationRow("rm-1", JSON.name)).partitions == Names.of(["default", "tpu"])
