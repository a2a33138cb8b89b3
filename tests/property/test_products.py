"""Messages do not make two collections grow that are multiplied by each other; ``make abuse`` tries all pairs of axes."""

from products import ALONE, AXES, AXIS_OF, products, schema


def test_every_collection_has_an_axis() -> None:
    """Each list and mapping of a request and of the queue file grows in some story."""
    assert schema() == AXIS_OF.keys() | ALONE
    assert set(AXIS_OF.values()) <= set(AXES)


def test_queues_multiply_nothing() -> None:
    """SE-48: what a partition keeps, and what is read of it, is a sum over its queues and everything else."""
    assert [*products([("queues", axis) for axis in AXES if axis != "queues"], 8, counts_calls=False)] == []
