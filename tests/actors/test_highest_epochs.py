"""The epochs that are remembered."""

from ykactor.actors.outbox import EPOCHS_MAX, Epochs
from ykactor.core.values.names import ANY, Names

GPU = Names.of(["gpu"])


def test_epochs_are_bounded() -> None:
    """SC-158: those of the resource managers that registered last with one stay, and each change is told."""
    epochs = Epochs()
    assert all(epochs.raise_to(7, f"rm-{number}", ANY) for number in range(EPOCHS_MAX))
    assert epochs.raise_to(7, "rm-0", ANY)
    assert not epochs.raise_to(7, "rm-0", ANY)
    assert not epochs.raise_to(0, "other", ANY)
    assert epochs.raise_to(1, "rm-new", ANY)
    assert [rm_id for rm_id, _ in epochs.highest] == [*(f"rm-{number}" for number in range(2, EPOCHS_MAX)), "rm-0", "rm-new"]


def test_limited_ones_push_out_only_their_own() -> None:
    """SC-158: however many names an identity registers that is limited to partitions, epochs for other partitions stay."""
    epochs = Epochs()
    epochs.raise_to(7, "rm-1", ANY)
    for number in range(2 * EPOCHS_MAX):
        epochs.raise_to(9, f"rm-{number}", GPU)
    assert len(epochs.highest) == EPOCHS_MAX + 1
    assert epochs.lowest("rm-1", ANY) == epochs.lowest("rm-1", GPU) == 7
    assert epochs.lowest(f"rm-{2 * EPOCHS_MAX - 1}", GPU) == 9
    assert epochs.lowest(f"rm-{2 * EPOCHS_MAX - 1}", ANY) == 0
