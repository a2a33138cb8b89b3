"""Facts to entries of the decision log."""

import json

import pytest
from samplefacts import ALLOCATED, ONLY_EVENTS, S, released

from ykactor.core.messages import facts
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.wire.decision_log import decision_lines, decision_log


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (
            facts.NodeAdded(S, "n1", {}, True, {}),
            '{"at":1.0,"decision":"node","nodeID":"n1","state":"accepted","reason":""}',
        ),
        (facts.NodeRejected(S, "n1", "why"), '{"at":1.0,"decision":"node","nodeID":"n1","state":"rejected","reason":"why"}'),
        (
            facts.ApplicationAdded(S, "app-1", "root.a", "alice"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"New","reason":""}',
        ),
        (
            facts.ApplicationRejected(S, "app-1", "why"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Rejected","reason":"why"}',
        ),
        (
            facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.RUNNING, ApplicationEvent.RUN),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Running","reason":""}',
        ),
        (
            facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.FAILING, ApplicationEvent.FAIL, "ExecutionTimeout"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Failing","reason":"ExecutionTimeout"}',
        ),
        (
            ALLOCATED,
            '{"at":1.0,"decision":"allocated","allocationKey":"t1","applicationID":"app-1","queueName":"root.a","nodeID":"n1"}',
        ),
        (
            released("PREEMPTED_BY_SCHEDULER"),
            (
                '{"at":2.0,"decision":"released","allocationKey":"t1","applicationID":"app-1","queueName":"root.a","nodeID":"n1",'
                '"terminationType":"PREEMPTED_BY_SCHEDULER"}'
            ),
        ),
        (
            released("TIMEOUT", node_id=""),
            (
                '{"at":2.0,"decision":"released","allocationKey":"t1","applicationID":"app-1","queueName":"root.a",'
                '"terminationType":"TIMEOUT"}'
            ),
        ),
        (
            facts.AllocationRejected(1_500_000_000, "t9", "app-1", "why"),
            '{"at":1.5,"decision":"rejected","allocationKey":"t9","applicationID":"app-1","reason":"why"}',
        ),
        (
            facts.ConfigurationChanged(S, False, "why"),
            '{"at":1.0,"decision":"configuration","state":"rejected","reason":"why"}',
        ),
    ],
)
def test_decision_lines(fact, line):
    """Each fact gives its entries, with their keys in their order."""
    assert decision_log([fact]).decode() == line + "\n"


@pytest.mark.parametrize("fact", ONLY_EVENTS, ids=lambda fact: type(fact).__name__)
def test_facts_that_are_no_decisions(fact):
    """Other node actions, foreign allocations, asks and queues have no entry in the log."""
    assert decision_lines(fact) == []


def test_the_log_keeps_the_order_of_the_facts():
    """The log is JSON Lines, in the order of the facts."""
    log = decision_log([ALLOCATED, facts.NodeRemoved(S, "n1"), released()])
    assert [json.loads(line)["decision"] for line in log.splitlines()] == ["allocated", "released"]
