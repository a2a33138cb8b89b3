"""An event: ``APP_TASK`` tells how a task has ended, as its resource manager says."""

from __future__ import annotations

from additions.applying import Edits, after, before, replaced

EDITS: Edits = {
    "core/messages/facts.py": [
        before(
            "class RequestRefused(",
            '''
class TaskRecorded(Fact, frozen=True, gc=False):
    """The resource manager has said how a task of an application has ended (AP-152)."""

    application_id: ApplicationID
    queue: QueuePath
    allocation_key: AllocationKey
    state: str


''',
        ),
    ],
    "core/objects/queues.py": [
        replaced("facts = self._record(submission)", "facts = self._record(now_ns, submission)"),
        replaced("def _record(self, submission", "def _record(self, now_ns: int, submission"),
        after(
            "application.account.record(submission.record)",
            """
            told = submission.record
            name = submission.application_id
            return [TaskRecorded(now_ns, name, self.path, told.allocation_key, told.state)]
""",
        ),
        replaced("facts import Allocated, ", "facts import TaskRecorded, Allocated, "),
    ],
    "wire/si/kinds.py": [after('Kind("APP", "APP_PRIORITY"', '    Kind("APP", "APP_TASK", _WHOLE),\n')],
    "wire/si/events.py": [
        before(
            "def _hold_text(",
            """
def _task_recorded(fact: facts.TaskRecorded) -> list[_Event]:
    return [_Event("APP", fact.application_id, "SET", "APP_TASK", fact.allocation_key, fact.state, fact.queue)]


""",
        ),
        after("facts.ApplicationHeld: _application_held,", "    facts.TaskRecorded: _task_recorded,\n"),
    ],
}


def works() -> None:
    """Check that the event is made, can be subscribed to, is kept, and is shown to limited readers and in the REST API."""
    from world import app, make_world, node, queue, record, tree

    from ykactor.access.view import IN_PARTITION, IN_QUEUE
    from ykactor.core.messages.facts import TaskRecorded
    from ykactor.wire.history import decode_facts, encode_facts
    from ykactor.wire.rest.events import event_of
    from ykactor.wire.si.events import events
    from ykactor.wire.si.kinds import EVENT_KINDS

    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-1"))
    world.send(record("t1", state="TimedOut"), at=5)
    (fact,) = [fact for fact in world.facts if type(fact) is TaskRecorded]
    assert decode_facts(encode_facts([fact])) == [fact]
    (event,) = events(fact, "default", 1)
    assert (event.event_change_detail, event.object_id, event.reference_id) == ("APP_TASK", "app-1", "t1")
    assert (event.message, event.queue_name, event.timestamp_nano) == ("TimedOut", "root.a", 5 * 10**9)
    assert "APP_TASK" in EVENT_KINDS["APP"]
    kind = event.type, event.event_change_detail
    assert [rules[kind](None, event) for rules in (IN_QUEUE, IN_PARTITION)] == [event, event]  # type: ignore[arg-type]
    assert event_of(event).message == "APP_TASK: TimedOut"
