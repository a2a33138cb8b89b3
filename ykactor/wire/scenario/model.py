"""A scenario, how it is written to a file, and the JSON schema of such files for editors."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta

from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.wire.queuefile.schema import describe
from ykactor.wire.scenario.recording import Outage, Recorded, Recording
from ykactor.wire.si import messages as si

#: A virtual second; up to the maximum a float of seconds tells microseconds apart, as ``actors.clock`` needs.
SECONDS_MAX = 8e9
Second = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]


class Moment(msgspec.Struct):
    """A field of a message in a scenario that the protocol does not have.

    Attributes:
        at: The second at which it is sent; not before the message before.
    """

    at: Second


class RunTime(msgspec.Struct, rename="camel"):
    """A field of an ask in a scenario that the protocol does not have.

    Attributes:
        run_seconds: How long it runs: the allocation is released so long after it started.
    """

    run_seconds: Annotated[float, Meta(gt=0, le=SECONDS_MAX)]


#: The acts of operators that are no requests of resource managers.
OperatorOnly = si.HoldApplication | si.HoldQueue | si.CancelAllocation | si.SetPriority
#: The messages of a scenario.
ScenarioRequest = si.WorkRequest | OperatorOnly


class TimedRequest(msgspec.Struct, frozen=True):
    """A request and the virtual second at which it is sent."""

    at: float
    request: ScenarioRequest | Recording
    #: ``runSeconds`` of the asks that have it, by their index in ``request.allocations``.
    run_seconds: dict[int, float] = {}


class Scenario(msgspec.Struct, frozen=True):
    """A queue configuration, and the messages of a resource manager to the scheduler that runs it."""

    name: str
    config: str
    #: The virtual second of the last scheduling cycle.
    until: float
    #: True if simulate and submit confirm releases that the scheduler starts.
    confirm_releases: bool = True
    #: In the order of their ``at``. Each iteration may read them from their file.
    messages: Iterable[TimedRequest] = []
    #: The queue file that ``config`` was read from; empty if the text is in the scenario.
    config_file: str = ""
    #: True if its resource manager is told why its asks wait (AP-146).
    wants_scheduling_states: bool = False
    #: True if the scheduler also runs when time alone lets it decide (SC-5), as a daemon does.
    wakes: bool = True
    #: Of a recording (``recording.py``); None of any other scenario.
    recorded: Recorded | None = None

    @property
    def begin_ns(self) -> int:
        """The Unix time of second 0."""
        return 0 if self.recorded is None else self.recorded.begin_ns

    @property
    def outages(self) -> tuple[Outage, ...]:
        """The times in which no daemon ran when it was recorded."""
        return () if self.recorded is None else self.recorded.outages


class Header(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A recorded session of a resource manager, for ykactor simulate and submit.

    Attributes:
        name: A name for messages.
        config: The text of the queue configuration, or the path of a .yaml or .yml file; empty is the built-in one.
        until: The second of the last scheduling cycle.
        confirm_releases: Whether simulate and submit confirm the releases that the scheduler starts.
        wants_scheduling_states: Whether simulate writes decisions, and submit lines, that say why asks wait.
        wakes: Whether simulate also schedules when a delay, a back-off or a retry ends, as a daemon does; false for recorded
            scenarios, in which delays are looked at only when something else happens.
    """

    name: str
    config: str
    until: Second
    confirm_releases: bool = True
    wants_scheduling_states: bool = False
    wakes: bool = True


class RecordedHeader(Header, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """The header of a recording."""

    recorded: Recorded


def dump_jsonl(scenario: Scenario, target: str | Path | BinaryIO) -> None:
    """Write JSON Lines to a path or to an open binary file; ``load`` returns an equal scenario, with its ``config`` inside.

    Args:  scenario: no recording.
    """
    assert scenario.recorded is None
    if isinstance(target, (str, Path)):
        with Path(target).open("wb") as file:
            dump_jsonl(scenario, file)
        return
    encode = msgspec.json.Encoder().encode
    wishes = scenario.confirm_releases, scenario.wants_scheduling_states, scenario.wakes
    target.write(encode(Header(scenario.name, scenario.config, scenario.until, *wishes)) + b"\n")
    for message in scenario.messages:
        request = msgspec.to_builtins(message.request)
        for index, seconds in message.run_seconds.items():
            request["allocations"][index]["runSeconds"] = seconds
        target.write(encode({"at": message.at, **request}) + b"\n")


#: Names for texts that the scheduler refuses alone, so that a scenario may have others.
_EXAMPLES = {
    ("NodeInfo", "action"): [action.value for action in NodeAction],
    ("AllocationRelease", "terminationType"): [kind.value for kind in TerminationType],
    ("AddApplicationRequest", "gangSchedulingStyle"): ["Soft", "Hard"],
}


def json_schema() -> dict[str, Any]:
    """The JSON schema of a file of YAML or JSON. It checks keys and types; the order of the messages is checked by ``load``."""
    (requests,), definitions = msgspec.json.schema_components([ScenarioRequest], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition.pop("description", None)  # of the code, not of the file
    for message in requests["anyOf"]:
        _add(definitions[message["$ref"].removeprefix("#/$defs/")], Moment)
    _add(definitions["Allocation"], RunTime, required=False)
    for (name, key), examples in _EXAMPLES.items():
        definitions[name]["properties"][key]["examples"] = examples
    header = _described(Header)
    messages = {"description": "In the order of their at.", "type": "array", "items": {"anyOf": requests["anyOf"]}}
    header["properties"]["messages"] = messages
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **header, "title": "Scenario", "$defs": definitions}


def _add(definition: dict[str, Any], kind: type[msgspec.Struct], *, required: bool = True) -> None:
    """Add the fields of another struct."""
    added = _described(kind)
    definition["properties"] = added["properties"] | definition["properties"]
    definition["required"] = [*(added["required"] if required else []), *definition["required"]]


def _described(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct, with what its docstring says of its fields."""
    schema: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]
    describe(schema, kind)
    return schema
