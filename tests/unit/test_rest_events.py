"""Events as the REST API shows them."""

import pytest

from ykactor.wire.rest.events import event_of
from ykactor.wire.si.kinds import EVENT_KINDS
from ykactor.wire.si.messages import EventRecord


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_kind_has_a_number(kind: str) -> None:
    """RE-9: 0 would say that nobody knows what it is; a detail without a number is in the message."""
    for detail in EVENT_KINDS[kind]:
        shown = event_of(
            EventRecord(
                sequence=1,
                type=kind,
                object_id="x",
                event_change_type="SET",
                event_change_detail=detail,
                message="text",
                timestamp_nano=1,
                partition="default",
            )
        )
        assert shown.type > 0
        assert detail == "DETAILS_NONE" or bool(shown.event_change_detail) is not shown.message.startswith(f"{detail}: ")
