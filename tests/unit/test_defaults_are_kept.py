"""Fields with their default values are left out of the journal, so a later version must read the same default for them."""

from typing import Any, get_args

from msgspec import NODEFAULT, Struct, structs

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import FACTS
from ykactor.core.messages.kinds import PendingCode, RejectionCode
from ykactor.core.messages.submissions import Submission
from ykactor.core.records.rows import ROWS

#: Never changed; a new field is added with the value that older journals mean.
DEFAULTS: dict[str, dict[str, Any]] = {
    "Account": {"allocated": {}, "waited": {}, "lost": {}},
    "AddApplication": {
        "groups": (),
        "tags": {},
        "execution_timeout_ms": 0,
        "placeholder_ask": None,
        "gang_scheduling_style": "",
        "user_is_unknown": False,
    },
    "Allocated": {"recovered": False, "charged_to": None, "waited": None},
    "ReleaseAllocations": {"node_id": None},
    "AllocationRejected": {"code": RejectionCode.UNKNOWN},
    "ApplicationAdded": {
        "submission_ns": 0,
        "arrival": 0,
        "stateaware": True,
        "groups": (),
        "placeholder_ask": {},
        "walltime_ns": 0,
    },
    "ApplicationChanged": {"why": ""},
    "ApplicationLeft": {"is_removed": False},
    "ApplicationRejected": {"code": RejectionCode.UNKNOWN},
    "ApplicationRow": {
        "group": None,
        "enrolled": False,
        "counted_as_running": False,
        "holds_slot": False,
        "held": 0,
        "backoff_ns": 0,
        "counted_ns": 0,
        "states": (),
        "failure": "",
        "started_ns": None,
        "hold": None,
        "kept_history": None,
    },
    "Ask": {
        "priority": 0,
        "node_id": None,
        "tags": {},
        "task_group_name": "",
        "placeholder": False,
        "originator": False,
        "allow_preempt_self": True,
        "allow_preempt_other": False,
        "releasing": False,
        "failures": (),
        "created_ns": 0,
        "arrival": 0,
        "since_ns": 0,
    },
    "AskCondition": {"resource": None},
    "AskWait": {"code": None, "before": {}},
    "CodeHistory": {"first": PendingCode.NEXT, "changes": [], "merged_from_ns": 0, "merged": {}},
    "AskRemoved": {"timed_out": False, "waited": None},
    "Audited": {"before": "", "after": "", "refusal": "", "times": 1},
    "ChargedTo": {"group": ""},
    "ConfigurationChanged": {"changes": ()},
    "ForeignRow": {"created_ns": 0},
    "NodeRejected": {"code": RejectionCode.UNKNOWN},
    "PartitionRow": {"states_wanted": False},
    "PredicateAnswered": {"uses": None},
    "JobReport": {"completed": 0, "failed": 0, "cancelled": 0},
    "Past": {
        "states": [],
        "failure": "",
        "outcome": None,
        "message": "",
        "started_ns": None,
        "max_used": {},
        "used": {},
        "preempted": {},
        "placeholders": {},
        "records": {},
        "job": None,
    },
    "QueueAdded": {"managed": True},
    "QueueRemoved": {"managed": True},
    "QueueRow": {"hold": None},
    "Released": {"with_node": False},
    "RemoveApplication": {"outcome": None, "message": ""},
    "SchedulingStateChanged": {"available": None, "nodes": {}, "reason": ""},
    "TaskRecord": {
        "exit_code": None,
        "signal": "",
        "started_ns": 0,
        "finished_ns": 0,
        "peak_memory": None,
        "node_id": "",
        "eligible_ns": 0,
        "cpu_ns": None,
        "message": "",
        "queue": "",
    },
    "TaskRow": {
        "began_ns": None,
        "node_id": None,
        "placeholder": None,
        "released": False,
        "notified": 0,
        "sized_ns": None,
        "preempted": False,
        "replaced_ns": None,
        "wait": None,
    },
    "UseRow": {"used": {}, "preempted": {}, "placeholders": {}, "records": {}, "job": None},
    "UpdateNode": {"capacity": None, "attributes": {}},
}


def test_defaults() -> None:
    """Each struct that a journal has, at whatever depth, keeps its defaults."""
    found: dict[type[Struct], dict[str, Any]] = {}
    for kind in (*ROWS.values(), *FACTS, *get_args(Submission), *get_args(Administration)):
        _collect(kind, found)
    left_out = {kind.__name__: defaults for kind, defaults in found.items() if kind.__struct_config__.omit_defaults and defaults}
    assert left_out == DEFAULTS


def _collect(kind: Any, found: dict[type[Struct], dict[str, Any]]) -> None:
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
        fields = structs.fields(kind)
        found[kind] = {
            field.name: field.default_factory() if field.default is NODEFAULT else field.default  # type: ignore[operator]
            for field in fields
            if not field.required
        }
        for field in fields:
            _collect(field.type, found)
    for part in get_args(kind):
        _collect(part, found)
