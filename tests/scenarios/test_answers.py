"""A recorded resource manager that answers where asks of a class may run, played by the simulator and by the plain loop."""

import textwrap

import pytest
from simulated import simulate, simulate_with_actors

from ykactor.core.nodes.predicates import NO_ANSWER
from ykactor.wire.decision_log import decision_lines
from ykactor.wire.scenario import load

STORY = """\
name: answers
config: |
  partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]
until: 100
messages:
  - {at: 0, type: NodeRequest, nodes: [
      {nodeID: n1, action: CREATE, schedulableResource: {vcore: "4"}},
      {nodeID: n2, action: CREATE, schedulableResource: {vcore: "4"}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: app-1, queueName: root.a, ugi: {user: alice}}]}
  - {at: 1, type: AllocationRequest, allocations: [
      {allocationKey: slow, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: gpu}},
      {allocationKey: half, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: disk}},
      {allocationKey: dead, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: tape}},
      {allocationKey: free, applicationID: app-1, resourcePerAlloc: {vcore: "1"}}]}
  - {at: 4, type: PredicatesResponse, answers: [{predicate: gpu, nodeID: n1, error: no gpu}, {predicate: gpu, nodeID: n2}]}
  - {at: 5, type: PredicatesResponse, answers: [{predicate: disk, nodeID: n2}]}
  - {at: 60, type: PredicatesResponse, forget: [{predicate: gpu}], answers: [{predicate: gpu, nodeID: n1}]}
  - {at: 61, type: AllocationRequest, allocations: [
      {allocationKey: late, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: gpu}}]}
"""


@pytest.mark.parametrize("run", [simulate_with_actors, simulate])
def test_slow_half_and_dead_answerers(run, tmp_path):
    """Asks with a late answer are placed late, with a partial one after 10 s, without one never; others at once."""
    (tmp_path / "answers.yaml").write_text(textwrap.dedent(STORY))
    outcome = run(load(tmp_path / "answers.yaml"))
    lines = [line for fact in outcome.facts for line in decision_lines(fact) if line["decision"] == "allocated"]
    assert [(line["at"], line["allocationKey"], line["nodeID"]) for line in lines] == [
        (1.0, "free", "n1"),
        (4.0, "slow", "n2"),
        (11.0, "half", "n2"),
        (61.0, "late", "n1"),
    ]
    assert outcome.waiting == [("dead", "root.a", f"no node that has room for it may run it: {NO_ANSWER} (2x)")]
    assert outcome.refused == []


HOST_PORT = """\
name: uses
config: |
  partitions: [{name: default, nodesortpolicy: {type: binpacking}, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]
until: 100
messages:
  - {at: 0, type: NodeRequest, nodes: [
      {nodeID: n1, action: CREATE, schedulableResource: {vcore: "4"}},
      {nodeID: n2, action: CREATE, schedulableResource: {vcore: "4"}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: app-1, queueName: root.a, ugi: {user: alice}}]}
  - {at: 1, type: PredicatesResponse, answers: [{predicate: port, nodeID: n1, uses: 2}]}
  - {at: 2, type: AllocationRequest, allocations: [
      {allocationKey: a, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: port}},
      {allocationKey: b, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: port}},
      {allocationKey: c, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: port}},
      {allocationKey: d, applicationID: app-1, resourcePerAlloc: {vcore: "1"}, allocationTags: {ykactor.io/predicate: port}}]}
  - {at: 3, type: AllocationRequest, releases: {allocationsToRelease: [
      {applicationID: app-1, allocationKey: a, terminationType: STOPPED_BY_RM}]}}
  - {at: 4, type: PredicatesResponse, answers: [
      {predicate: port, nodeID: n1, error: in use}, {predicate: port, nodeID: n2, uses: 1}]}
  - {at: 5, type: PredicatesResponse, answers: [{predicate: port, nodeID: n1, uses: 9}]}
"""


@pytest.mark.parametrize("run", [simulate_with_actors, simulate])
def test_an_answer_for_some_placements(run, tmp_path):
    """SC-160: two tasks use up an answer for two; a release gives nothing back; what is left waits for another answer."""
    (tmp_path / "uses.yaml").write_text(HOST_PORT)
    outcome = run(load(tmp_path / "uses.yaml"))
    lines = [line for fact in outcome.facts for line in decision_lines(fact) if line["decision"] == "allocated"]
    assert [(line["at"], line["allocationKey"], line["nodeID"]) for line in lines] == [
        (2.0, "a", "n1"),
        (2.0, "b", "n1"),
        (4.0, "c", "n2"),
        (5.0, "d", "n1"),
    ]
