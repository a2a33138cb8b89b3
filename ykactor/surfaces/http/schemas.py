"""The types of the parameters of routes, for the OpenAPI document; ``parameters`` checks their values.

A value of the document is never refused. More is taken: names in other cases, and names with a slash, which has to be encoded
twice.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ykactor.core.inspection.accounting import Column

_PART = "[a-zA-Z0-9_:#@-]{1,64}"

#: The path of a queue, and the names of users and groups (CF-20 to CF-22).
QueueName = Annotated[str, Meta(pattern=rf"^{_PART}(\.{_PART})*$")]
UserName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9:#_.@-]*\$?$")]
GroupName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9:_.-]*$")]
#: Of an object whose name may be any text.
AnyName = Annotated[str, Meta(min_length=1)]

#: States of applications.
Status = Literal["new", "accepted", "running", "completing", "failing", "resuming"]
Ended = Literal["active", "completed", "rejected"]
Active = Literal["active"]

#: Of accounts: what they are summed up by, and the first or last day.
_Column = Annotated[str, Meta(extra_json_schema={"enum": [*Column]})]
By = Annotated[list[_Column], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]
Day = Annotated[
    str,
    Meta(
        description="a number of days before today, a date, or a time with its zone",
        extra_json_schema={"anyOf": [{"pattern": "^[1-9][0-9]{0,3}d$"}, {"format": "date"}, {"format": "date-time"}]},
    ),
]

#: Of events.
Start = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
