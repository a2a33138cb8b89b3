"""The JSON schema of scenario files, for editors: the types that ``load`` converts to, with ``at``, ``runSeconds`` and names."""

from typing import Any

import msgspec

from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.wire.scenario.model import Header, Moment, RunTime
from ykactor.wire.si import messages as si

#: Names for texts that the scheduler refuses alone, so that a scenario may have others.
_EXAMPLES = {
    ("NodeInfo", "action"): [action.value for action in NodeAction],
    ("AllocationRelease", "terminationType"): [kind.value for kind in TerminationType],
    ("AddApplicationRequest", "gangSchedulingStyle"): ["Soft", "Hard"],
}


def json_schema() -> dict[str, Any]:
    """The JSON schema of a file of YAML or JSON. It checks keys and types; the order of the messages is checked by ``load``."""
    (requests,), definitions = msgspec.json.schema_components([si.WorkRequest], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition.pop("description", None)  # of the code, not of the file
    for message in requests["anyOf"]:
        _add(definitions[message["$ref"].removeprefix("#/$defs/")], Moment)
    _add(definitions["Allocation"], RunTime, required=False)
    for (name, key), examples in _EXAMPLES.items():
        definitions[name]["properties"][key]["examples"] = examples
    header = msgspec.json.schema(Header)["$defs"]["Header"]
    messages = {"description": "In the order of their at.", "type": "array", "items": {"anyOf": requests["anyOf"]}}
    header["properties"]["messages"] = messages
    header |= {"title": "Scenario", "description": "A recorded session of a resource manager, for ykactor simulate and submit."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **header, "$defs": definitions}


def _add(definition: dict[str, Any], kind: type[msgspec.Struct], *, required: bool = True) -> None:
    """Add the fields of another struct."""
    added = msgspec.json.schema(kind)["$defs"][kind.__name__]
    definition["properties"] = added["properties"] | definition["properties"]
    definition["required"] = [*(added["required"] if required else []), *definition["required"]]
