"""A verb of operators: ``ykactor extend APP... SECONDS`` lets gangs wait longer for the rest of their placeholders."""

from __future__ import annotations

from additions.applying import Edits, after, before, replaced

EDITS: Edits = {
    "wire/si/messages/requests.py": [
        before(
            "class ExpectNoAllocations(_Request",
            '''
class ExtendGang(_Request, frozen=True, kw_only=True):
    """Let a gang wait so many seconds longer."""

    application_id: str
    seconds: Annotated[int, Meta(ge=1, le=86_400)]
    partition_name: str = ""


''',
        ),
        replaced("CancelAllocation | SetPriority\n", "CancelAllocation | SetPriority | ExtendGang\n"),
    ],
    "wire/si/acts.py": [
        before("CancelTask,", "    ExtendGang,\n"),
        before(
            "#: The messages of operators",
            """
def _extend(request: si.ExtendGang, operator: Operator) -> ExtendGang:
    return ExtendGang(_application(request), request.seconds, operator)


""",
        ),
        after(
            "si.CancelAllocation: ActRow(",
            '    si.ExtendGang: ActRow(Act.EXTEND, "application_id", _extend, settings=("seconds",)),\n',
        ),
    ],
    "core/messages/acts.py": [
        after('PRIORITY = "PRIORITY"', '    EXTEND = "EXTEND"\n'),
        before(
            "#: What its leaf does to an application",
            '''
class ExtendGang(_ApplicationAct, frozen=True, gc=False):
    """Let a gang wait so many seconds longer for the rest of its placeholders."""

    seconds: int
    operator: Operator

    @property
    def words(self) -> str:
        return f"let the gang {self.application_id} wait {self.seconds} s longer"


''',
        ),
        replaced("CancelTask | SetPriority\n", "CancelTask | SetPriority | ExtendGang\n"),
    ],
    "core/objects/acts.py": [
        replaced("CancelTask, Hold, HoldApplication,", "CancelTask, ExtendGang, Hold, HoldApplication,"),
        replaced("import states_first", "import Timer, states_first"),
        before(
            "#: The effects of the acts",
            """
def _extend_objection(application: Application, act: ExtendGang) -> str:
    is_set = Timer.PLACEHOLDERS in application.lifecycle.timers
    return "" if is_set else f"application {act.application_id} waits for no placeholders"


def _extend(application: Application, now_ns: int, act: ExtendGang) -> list[Fact]:
    application.lifecycle.set_timer(Timer.PLACEHOLDERS, application.lifecycle.timers[Timer.PLACEHOLDERS] + act.seconds * 10**9)
    return []


def _waits_until(application: Application, act: ExtendGang) -> str:
    due_ns = application.lifecycle.timers.get(Timer.PLACEHOLDERS)
    return "" if due_ns is None else f"waits until {due_ns}"


""",
        ),
        after("CancelTask: Effect(", "    ExtendGang: Effect(_extend_objection, _extend, _waits_until),\n"),
    ],
    "surfaces/cli/acts.py": [
        replaced("import PRIORITY", "import PRIORITY, WholeNumber"),
        before(
            "# ---- the resource manager",
            '''
@_verb("APP")
@click.argument("seconds", metavar="SECONDS", type=WholeNumber(1, 86_400))
def extend(app: str, partition: str, seconds: int) -> Act:
    """Let gangs wait SECONDS longer for the rest of their placeholders."""
    wanted = si.ExtendGang(application_id=app, seconds=seconds, partition_name=partition)
    return Act(app, f"waits {seconds} s longer", wanted)


''',
        ),
    ],
}


def works() -> None:
    """Check the way from bytes to a gang that waits longer, with the rights, the words and the audit of other verbs."""
    import msgspec
    from click.testing import CliRunner
    from gangs import gang, holder, room
    from world import OPS

    from ykactor.access.model import Identity, Names, Role
    from ykactor.access.permissions import check
    from ykactor.core.messages.acts import Act
    from ykactor.core.turn.turn import Request
    from ykactor.surfaces.cli.history import in_words
    from ykactor.surfaces.cli.main import main
    from ykactor.surfaces.sessions.operator_session import look
    from ykactor.wire.history import decode_cause, encode_cause
    from ykactor.wire.si import acts
    from ykactor.wire.si import messages as si

    told = msgspec.json.decode(b'{"type":"ExtendGang","applicationID":"gang","seconds":600}', type=si.OperatorRequest)
    operator = Identity(name="ops", roles=frozenset({Role.OPERATOR}))
    assert check(operator, Role.OPERATOR, told) is None
    refusal = check(msgspec.structs.replace(operator, partitions=Names.of(["gpu"])), Role.OPERATOR, told)
    assert refusal is not None
    assert refusal.path == "partitionName"
    partition, act = acts.operation(told, OPS)
    assert (partition, acts.act_of(told), act.target) == ("default", Act.EXTEND, "gang")
    cause = decode_cause(encode_cause(Request(act)))
    assert in_words(cause) == "the operator ops, to let the gang gang wait 600 s longer"

    world = room(2)
    world.given(gang(timeout_s=60), holder("p1"))
    registry = world.direct.core.registry
    assert (look(registry, act), world.administer(act, at=30)) == (f"waits until {60 * 10**9}", "")
    assert look(registry, act) == f"waits until {660 * 10**9}"
    world.wait(659)
    assert world.heard() == []
    world.wait(661)
    assert world.heard() != []
    assert world.administer(act) == "application gang waits for no placeholders"
    assert CliRunner().invoke(main, ["extend", "--help"]).output.startswith("Usage: main extend [OPTIONS] APP... SECONDS\n")
