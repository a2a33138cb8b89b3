"""The effects of daemon messages and process ends on jobs: input in, requests and starts out."""

import itertools
from types import SimpleNamespace

import pytest
from localjobs import job_of
from localworld import S_NS, World, asked, concluded, released, requests_of, started
from msgspec import structs

from ykactor.core.accounting.past import RECORDS_MAX
from ykactor.local import machine
from ykactor.local.jobs import TASKS_MAX, SubmitRefused
from ykactor.local.machine import gpu_indices, memory_bytes, this_machine, vcore
from ykactor.local.model import Ended, State, Task
from ykactor.wire.si import messages as si


@pytest.fixture
def world():
    return World()


def test_a_short_life(world):
    """Asked for, started when allocated; the job ends with it, and the application at once (AP-151)."""
    job, effects = world.submit()
    assert (effects.jobs, asked(effects)) == ({"job-1": job}, ["job-1.0"])
    effects = world.allocate("job-1.0")
    ((_, task),) = effects.starts
    assert (task.state, task.boot, list(effects.tasks.values())) == (State.RUNNING, "boot", [task])
    effects = world.end(task, 0)
    assert (task.state, effects.ended, concluded(effects)) == (State.COMPLETED, ["job-1"], [("job-1", "Completed", "")])
    assert world.jobs.are_done


def recorded(effects):
    return [(entry.allocation_key, entry.state, entry.exit_code, entry.finished_time) for entry in effects.records]


def test_each_attempt_has_a_record(world):
    """AP-152: with what it has left; a daemon that has lost everything is told them again."""
    world.submit(retries=1, last=1)
    task = world.allocate("job-1.0").starts[0][1]
    world.now_ns = 5
    first = [("job-1.0", "Failed", 137, 5)]
    assert recorded(world.end(task, 137)) == first
    task = world.allocate("job-1.0.r1").starts[0][1]
    world.now_ns = 7
    effects = world.end(task, 3)
    last = [("job-1.0.r1", "Failed", 3, 7)]
    assert (recorded(effects), effects.records[0].start_time, effects.records[0].signal) == (last, 5, "")
    world.jobs.report()
    told = [request for request in world.jobs.take().requests if isinstance(request, si.ApplicationRequest)]
    assert [len(request.new) for request in told] == [1, 0]
    assert recorded(told[1]) == first + last
    assert recorded(world.release("job-1.1", "TIMEOUT")) == [("job-1.1", "Cancelled", None, 7)]


def test_as_many_records_are_told_again_as_the_daemon_keeps(world):
    """AP-152: those of the tasks that have ended last, also of a job that was kept while nobody ran it."""
    count = RECORDS_MAX + 2
    job = job_of("true", id="job-1", last=count)
    tasks = [Task(job.id, index, State.COMPLETED, ended_ns=count - index) for index in range(count)]
    world.jobs.restore(job, [*tasks, Task(job.id, count, State.PENDING)])
    world.jobs.report()
    told = next(request for request in reversed(world.jobs.take().requests) if getattr(request, "records", ()))
    assert [record.allocation_key for record in told.records] == [f"job-1.{index}" for index in reversed(range(RECORDS_MAX))]


def reported(effects):
    """The reports with a new application, and those of what has ended."""
    told = [report for request in effects.requests if isinstance(request, si.ApplicationRequest) for report in request.jobs]
    return [(each.tasks, each.completed, each.failed, each.cancelled) for each in (*told, *effects.reports.values())]


def test_the_daemon_is_told_how_far_a_job_is(world):
    """AP-160: how many tasks have ended for good; one that is tried or run again has not, and after a new registration too."""
    job, effects = world.submit(retries=1, last=3)
    assert reported(effects) == [(4, 0, 0, 0)]
    assert reported(world.run("job-1.0", 3)) == []
    assert reported(world.run("job-1.0.r1", 3)) == [(4, 0, 1, 0)]
    assert reported(world.run("job-1.1")) == [(4, 1, 1, 0)]
    assert reported(world.release("job-1.2", "TIMEOUT")) == [(4, 1, 1, 1)]
    world.jobs.report()
    assert reported(world.take()) == [(4, 1, 1, 1)]
    world.jobs.requeue(job, [], [0], "why")
    assert reported(world.take()) == [(4, 1, 0, 1)]


def test_a_retry_is_asked_for_before_the_release(world):
    """Otherwise the application would complete in between; the last attempt is final."""
    world.submit(retries=1)
    ((_, task),) = world.allocate("job-1.0").starts
    effects = world.end(task, 3)
    ask, release = effects.requests
    assert (ask.allocations[0].allocation_key, release.releases.allocations_to_release[0].allocation_key) == (
        "job-1.0.r1",
        "job-1.0",
    )
    ((_, again),) = world.allocate("job-1.0.r1").starts
    assert world.end(again, 3).ended == ["job-1"]
    assert (again.state, again.reason, again.attempt) == (State.FAILED, "exit code 3", 1)


@pytest.mark.parametrize(
    ("termination_type", "state"), [("PREEMPTED_BY_SCHEDULER", State.PREEMPTED), ("TIMEOUT", State.CANCELLED)]
)
def test_a_release_is_confirmed_when_the_process_is_gone(world, termination_type, state):
    """And not before: until then it uses what it has."""
    world.submit()
    ((_, task),) = world.allocate("job-1.0").starts
    effects = world.release("job-1.0", termination_type)
    assert (effects.kills, effects.requests, task.state) == ([task], [], State.ENDING)
    assert world.release("job-1.0", termination_type).kills == []
    effects = world.end(task, 0)
    assert released(effects) == [("job-1.0", termination_type)][: state is State.PREEMPTED]  # else its application ends
    assert concluded(effects) == [("job-1", "Failed" if state is State.PREEMPTED else "Cancelled", "why")]
    assert (task.state, task.reason) == (state, "why")


@pytest.mark.parametrize(("code", "state", "outcome"), [(0, State.COMPLETED, "Completed"), (3, State.FAILED, "Failed")])
def test_what_had_ended_before_it_was_cancelled_stays_so(world, code, state, outcome):
    """The process was not there any more when it was to be told."""
    world.submit()
    ((_, task),) = world.allocate("job-1.0").starts
    world.release("job-1.0", "TIMEOUT")
    world.jobs.on_ended(task, Ended(code, by_itself=True))
    assert (task.state, task.exit_code, concluded(world.jobs.take())[0][1]) == (state, code, outcome)


@pytest.mark.parametrize(
    ("codes", "outcome", "message"),
    [
        ([0, 0, 0], "Completed", ""),
        ([0, 3, 0], "Failed", "task 1: exit code 3"),
        ([0, 137, 1], "Failed", "task 1: exit code 137 (SIGKILL); 2 of 3 tasks"),
        ([0, 129 + 127, 0], "Failed", "task 1: exit code 256"),
        ([0, None, 3], "Failed", "task 1: Lost; 2 of 3 tasks"),
    ],
)
def test_the_outcome_of_several_tasks_is_that_of_the_first_that_failed(world, codes, outcome, message):
    """Said once, with the end of the last one."""
    world.submit(last=2)
    tasks = [task for _, task in world.allocate("job-1.0", "job-1.1", "job-1.2").starts]
    said = [concluded(world.end(task, code)) for task, code in zip(tasks, codes, strict=True)]
    assert said == [[], [], [("job-1", outcome, message)]]


@pytest.mark.parametrize(("code", "state"), [(137, State.FAILED), (None, State.LOST)])
def test_it_is_said_if_it_was_the_memory(world, code, state):
    """The reason names the memory if the command was killed, or if nothing else is known of the task."""
    world.submit()
    ((_, task),) = world.allocate("job-1.0").starts
    world.jobs.on_ended(task, Ended(code, "vanished", is_short=True))
    assert (task.state, "wanted more memory" in task.reason) == (state, True)


def test_a_record_has_all_that_is_known_of_an_end(world):
    """Begin, end, exit code or signal, and what it has used."""
    world.now_ns = 5
    world.submit()
    ((_, task),) = world.allocate("job-1.0").starts
    world.now_ns = 7
    world.jobs.on_ended(task, Ended(143, peak_memory=2**20))
    assert (task.started_ns, task.ended_ns, task.exit_code, task.signal, task.peak_memory) == (5, 7, 143, "SIGTERM", 2**20)
    assert Task("job-1", 0, exit_code=3).signal == Task("job-1", 0).signal == ""


def test_what_is_not_wanted_any_more_is_given_back(world):
    """An allocation of a job that has ended, or of none; the echo of a release is no news."""
    assert released(world.allocate("job-9.0", of="job-9")) == [("job-9.0", "STOPPED_BY_RM")]
    assert released(world.release("job-9.0", "TIMEOUT", of="job-9")) == [("job-9.0", "TIMEOUT")]
    assert world.release("job-9.0", "STOPPED_BY_RM", of="job-9").requests == []


def test_an_allocation_that_comes_twice_starts_once(world):
    """The daemon repeats what was reported to it."""
    world.submit()
    assert started(world.allocate("job-1.0")) == ["job-1.0"]
    effects = world.allocate("job-1.0")
    assert (effects.starts, effects.requests) == ([], [])


def test_everything_is_reported_in_order(world):
    """The closed node, applications, what runs, what waits, and the node is opened (SC-144, SC-145)."""
    world.submit(last=1)
    world.submit()
    world.allocate("job-1.1")
    world.jobs.report()
    node, applications, running, pending, opened = world.jobs.take().requests
    assert (node.nodes[0].action, opened.nodes[0].action) == ("CREATE_DRAIN", "DRAIN_TO_SCHEDULABLE")
    assert [entry.application_id for entry in applications.new] == ["job-1", "job-2"]
    assert [(entry.allocation_key, entry.node_id, entry.releasing) for entry in running.allocations] == [("job-1.1", "n1", False)]
    assert [(entry.allocation_key, entry.node_id) for entry in pending.allocations] == [("job-1.0", ""), ("job-2.0", "")]


def test_what_is_ending_is_reported_as_such(world):
    """The daemon counts it as going, and does not preempt it again (AP-145)."""
    world.submit()
    world.allocate("job-1.0")
    world.release("job-1.0", "PREEMPTED_BY_SCHEDULER")
    world.jobs.report()
    (running,) = requests_of(world.jobs.take())
    assert running.allocations[0].releasing


def test_a_gang_starts_when_all_have_their_place(world):
    """Placeholders first; the tasks are asked for when all are there, and start with the last one."""
    _, effects = world.submit(is_gang=True, last=1)
    places = ["job-1.placeholder1", "job-1.placeholder2"]
    assert asked(effects) == places
    assert asked(world.allocate(places[0], placeholder=True)) == []
    assert asked(world.allocate(places[1], placeholder=True)) == ["job-1.0", "job-1.1"]
    for key in places:
        assert released(world.release(key, "PLACEHOLDER_REPLACED")) == [(key, "PLACEHOLDER_REPLACED")]
    assert started(world.allocate("job-1.0")) == []
    assert started(world.allocate("job-1.1")) == ["job-1.0", "job-1.1"]


def test_a_preempted_placeholder_is_asked_for_again(world):
    """Under another key: without it the gang would never be complete."""
    world.submit(is_gang=True, last=1)
    world.allocate("job-1.placeholder1", placeholder=True)
    effects = world.release("job-1.placeholder1", "PREEMPTED_BY_SCHEDULER")
    assert (asked(effects), released(effects)) == (["job-1.placeholder3"], [("job-1.placeholder1", "PREEMPTED_BY_SCHEDULER")])


def test_a_gang_that_waits_is_reported_as_placeholders(world):
    """The daemon has forgotten those that it had."""
    world.submit(is_gang=True, last=1)
    world.allocate("job-1.placeholder1", placeholder=True)
    world.jobs.report()
    assert asked(world.jobs.take()) == ["job-1.placeholder1", "job-1.placeholder2"]
    world.allocate("job-1.placeholder1", placeholder=True)
    assert asked(world.allocate("job-1.placeholder2", placeholder=True)) == ["job-1.0", "job-1.1"]


def test_a_gang_without_room_fails_as_a_whole(world):
    """Each of its tasks says why."""
    _, effects = world.submit(is_gang=True, last=2)
    tasks = list(effects.tasks.values())
    update = si.UpdatedApplication(
        application_id="job-1", state="Failing", state_transition_timestamp=0, message="ResourceReservationTimeout"
    )
    world.jobs.on_message(si.ApplicationResponse(updated=[update]))
    assert world.jobs.take().ended == ["job-1"]
    assert {(task.state, task.reason) for task in tasks} == {(State.FAILED, "there was no room for the whole gang in time")}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Terminated", "cancelled by an operator"),
        ("PartitionRemoved", "its partition was removed from the queue file"),
        ("Other", "its application has failed: Other"),
    ],
)
def test_why_all_of_a_job_ends_is_said_in_words(world, message, reason):
    """The reason is that of the application, for waiting and for running tasks, whatever the release of the task says."""
    _, effects = world.submit(last=1)
    waits = effects.tasks["job-1", 1]
    ((_, runs),) = world.allocate("job-1.0").starts
    update = si.UpdatedApplication(application_id="job-1", state="Failing", state_transition_timestamp=0, message=message)
    world.jobs.on_message(si.ApplicationResponse(updated=[update]))
    world.release("job-1.0", "TIMEOUT")
    world.end(runs, 143)
    assert {(task.state, task.reason) for task in (waits, runs)} == {(State.CANCELLED, reason)}


def test_gpus_are_given_once(world):
    """Each to one task at a time, and again when that has ended."""
    world.submit(resource={"gpu": 1}, last=2)
    effects = world.allocate("job-1.0", "job-1.1")
    assert [task.gpus for _, task in effects.starts] == [[0], [1]]
    world.end(effects.starts[0][1], 0)
    ((_, third),) = world.allocate("job-1.2").starts
    assert third.gpus == [0]


def test_time_limits(world):
    """Exactly the limit is enough; the reason has it with all digits."""
    two_weeks = 1_209_600
    world.submit(time_limit_s=two_weeks)
    ((_, task),) = world.allocate("job-1.0").starts
    for now_ns, kills in ((two_weeks * S_NS - 1, []), (two_weeks * S_NS, [task]), ((two_weeks + 1) * S_NS, [])):
        world.now_ns = now_ns
        world.jobs.on_time()
        assert world.jobs.take().kills == kills
    assert (world.end(task, 143).ended, task.state) == (["job-1"], State.TIMED_OUT)
    assert task.reason == "ran longer than 1209600 s"


def test_the_daemon_is_told_how_long_tasks_run_at_most(world):
    """AP-157: by a tag of the application, if the job has a limit."""
    world.submit()
    world.submit(time_limit_s=90.5)
    world.jobs.report()
    told = [request for request in world.jobs.take().requests if isinstance(request, si.ApplicationRequest)]
    assert [entry.tags.get("runSeconds") for request in told for entry in request.new] == [None, "90.5"]


@pytest.mark.parametrize("which", ["application", "ask", "request"])
def test_what_the_daemon_rejects_has_ended(world, which):
    """The job ends with the reason; the application goes, because nothing would complete it."""
    _, effects = world.submit()
    (task,) = effects.tasks.values()
    match which:
        case "application":
            rejected = si.RejectedApplication(application_id="job-1", reason="no")
            world.jobs.on_message(si.ApplicationResponse(rejected=[rejected]))
        case "ask":
            unwanted = si.RejectedAllocation(allocation_key="job-1.0", application_id="job-1", reason="no")
            world.jobs.on_message(si.AllocationResponse(rejected_allocations=[unwanted]))
        case "request":
            world.jobs.on_refused(effects.requests[0], "no")
    effects = world.jobs.take()
    assert (task.state, task.reason, effects.ended) == (State.REJECTED, "no", ["job-1"])
    assert concluded(effects) == [("job-1", "Failed", "no")]


def test_a_running_task_outlives_a_rejection(world):
    """The daemon does not know it any more; its work is not thrown away for that."""
    world.submit(retries=1)
    ((_, task),) = world.allocate("job-1.0").starts
    unwanted = si.RejectedAllocation(allocation_key="job-1.0", application_id="job-1", reason="no")
    world.jobs.on_message(si.AllocationResponse(rejected_allocations=[unwanted]))
    assert (task.state, world.jobs.take().kills) == (State.RUNNING, [])


def test_there_is_a_bound(world):
    """A submission is refused if it is too large for the machine, or has too many tasks."""
    with pytest.raises(SubmitRefused, match="found 400 of vcore, expected at most 4:"):
        world.submit(resource={"vcore": 400_000})
    with pytest.raises(SubmitRefused, match="found 5 of vcore, expected at most 4:"):
        world.submit(last=9, resource={"vcore": 5000})
    with pytest.raises(SubmitRefused, match="this machine has no foo"):
        world.submit(resource={"foo": 1})
    with pytest.raises(SubmitRefused, match="at least one"):
        world.submit(first=2, last=1)
    for _ in itertools.repeat(None, TASKS_MAX // 10_000):
        world.submit(last=9_999)
    with pytest.raises(SubmitRefused, match="100000 tasks"):
        world.submit()


def test_a_gang_that_can_never_start_is_refused(world):
    """The placeholders would hold the machine until their timeout. The tasks of an array may run one after the other."""
    with pytest.raises(SubmitRefused, match="found 5 of vcore for a gang of 5, expected at most 4:"):
        world.submit(is_gang=True, last=4, resource={"vcore": 1000})
    world.submit(is_gang=True, last=3, resource={"vcore": 1000})
    world.submit(last=4, resource={"vcore": 1000})


def accept(world, leaf, of="job-1"):
    world.jobs.on_message(si.ApplicationResponse(accepted=[si.AcceptedApplication(application_id=of, queue_name=leaf)]))
    return world.jobs.take()


def test_a_job_without_a_time_limit_has_that_of_its_queue(world):
    """The limit holds from the acceptance on: the job keeps it, and says so if it is introduced again (AP-158)."""
    world.now_ns = S_NS
    accepted = si.AcceptedApplication(application_id="job-1", queue_name="root.a", run_seconds=60)
    world.submit(queue="root.a", last=1, at_most=1, retries=1, retry_delay_s=5)
    world.jobs.on_message(si.ApplicationResponse(accepted=[accepted]))
    assert [job.time_limit_s for job in world.take().jobs.values()] == [60]
    accepted = structs.replace(accepted, run_seconds=30)
    world.jobs.on_message(si.ApplicationResponse(accepted=[accepted]))
    assert world.take().jobs == {}
    world.jobs.report()
    (told,) = [each for request in world.take().requests if isinstance(request, si.ApplicationRequest) for each in request.new]
    assert (told.tags["runSeconds"], told.tags["runSecondsGranted"]) == ("60", "true")


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_job_that_is_requeued_after_its_end_asks_anew_for_its_time(world, is_accepted):
    """Such a job may never have been let in, or long ago (AP-158)."""
    world.submit(queue="root.a", time_limit_s=60)
    if is_accepted:
        world.kept_jobs |= accept(world, "root.a").jobs
    rejected = si.RejectedApplication(application_id="job-1", reason="too long")
    world.jobs.on_message(si.ApplicationResponse(rejected=[rejected]))
    assert world.take().ended == ["job-1"]
    job = world.kept_jobs["job-1"]
    assert job.is_let_in is is_accepted
    world.jobs.requeue(job, [Task("job-1", 0, State.REJECTED)], [0], "requeued by me")
    (told,) = [each for request in world.take().requests if isinstance(request, si.ApplicationRequest) for each in request.new]
    assert (told.tags["runSeconds"], "runSecondsGranted" in told.tags) == ("60", False)


def test_the_queue_is_that_in_which_the_daemon_has_placed_it(world):
    """Told again it is no news; what was asked for stays, because it is asked for again after a restart of the daemon."""
    world.submit()
    for leaf, kept in ("root.users.bob", [("", "root.users.bob")]), ("root.users.bob", []):
        assert [(job.queue, job.leaf) for job in accept(world, leaf).jobs.values()] == kept


@pytest.mark.parametrize("queue", ["root.batchh", "batchh", "root.batch.smal", "root.batch.small.er", "root.defaultx"])
@pytest.mark.parametrize("leaf", ["root.default", "root.batch.small"])
def test_a_job_runs_in_no_other_queue_than_it_has_named(world, queue, leaf):
    """The job is rejected with the queue that it would have been in; an allocation that it got at once is given back."""
    _, effects = world.submit(queue=queue, last=1)
    tasks = list(effects.tasks.values())
    effects = accept(world, leaf)
    assert {task.state for task in tasks} == {State.REJECTED}
    assert f"lead to {leaf}, expected {queue}: " in tasks[0].reason
    assert (effects.ended, concluded(effects)[0][1]) == (["job-1"], "Failed")
    assert released(world.allocate("job-1.0")) == [("job-1.0", "STOPPED_BY_RM")]


@pytest.mark.parametrize("queue", ["", "root.batch.small", "batch.small", "ROOT.Batch.Small", "root.batch", "root"])
def test_a_queue_is_named_in_several_ways(world, queue):
    """A queue may be named with or without its root, in any case; a rule may choose one below it."""
    world.submit(queue=queue)
    assert accept(world, "root.batch.small").ended == []


def test_what_runs_goes_on_when_its_queue_has_gone(world):
    """After a restart of a daemon without the queue: its work is not thrown away; what waits is rejected."""
    _, effects = world.submit(queue="root.web", last=1)
    waits = effects.tasks["job-1", 1]
    ((_, runs),) = world.allocate("job-1.0").starts
    accept(world, "root.default")
    assert (runs.state, waits.state) == (State.RUNNING, State.REJECTED)


def test_a_retry_has_the_priority_that_an_operator_gave(world):
    """The daemon says it with the allocation; also when everything is reported anew."""
    world.submit(priority=1, retries=2)
    for key, again, said, kept in (("job-1.0", "job-1.0.r1", 7, 7), ("job-1.0.r1", "job-1.0.r2", 0, 0)):
        new = [si.Allocation(allocation_key=key, application_id="job-1", priority=said, node_id="n1")]
        world.jobs.on_message(si.AllocationResponse(new=new))
        ((_, task),) = world.jobs.take().starts
        world.jobs.report()
        asks = [entry for request in requests_of(world.jobs.take()) for entry in request.allocations]
        asks += [entry for request in requests_of(world.end(task, 1)) for entry in request.allocations]
        assert [(entry.allocation_key, entry.priority) for entry in asks] == [(key, said), (again, kept)]


def test_a_gang_says_whose_exit_code_it_was(world):
    """The reason of the other tasks names the task that failed and its exit code."""
    _, effects = world.submit(is_gang=True, last=2)
    tasks = list(effects.tasks.values())
    world.allocate(*(f"job-1.placeholder{number}" for number in (1, 2, 3)), placeholder=True)
    world.allocate(*(task.key for task in tasks))
    world.end(tasks[1], 4)
    for task in (tasks[0], tasks[2]):
        effects = world.end(task, 143)
        assert (task.state, task.reason) == (State.CANCELLED, "task 1 of the gang is Failed: exit code 4")
    assert concluded(effects) == [("job-1", "Failed", "task 1: exit code 4")]


def test_a_rejected_gang_is_told_which_queues_run_gangs(world):
    """AP-18 says only that the queue does not."""
    _, effects = world.submit(is_gang=True, last=1)
    rejected = si.RejectedApplication(application_id="job-1", reason="no", code="SORT_POLICY")
    world.jobs.on_message(si.ApplicationResponse(rejected=[rejected]))
    assert {task.reason for task in effects.tasks.values()} == {
        "no; a gang needs a queue with the application.sort.policy fifo or stateaware (AP-18)"
    }


@pytest.mark.parametrize("gpu_type", ["gpu", "nvidia.com/gpu", "amd.com/gpu"])
@pytest.mark.parametrize("named", ["gpu", "nvidia.com/gpu"])
def test_gpus_have_one_name(gpu_type, named):
    """The name is that of the queue file, whatever a job and the local resource manager call it."""
    world = World(this_machine({named: 2, "vcore": 4000}, gpu_type))
    assert world.machine.resource[gpu_type] == 2
    assert {"gpu", "nvidia.com/gpu", gpu_type} & set(world.machine.resource) == {gpu_type}
    job, effects = world.submit(resource={named: 1, "vcore": 1}, last=1)
    assert job.resource == {gpu_type: 1, "vcore": 1}
    assert requests_of(effects)[0].allocations[0].resource_per_alloc == job.resource
    assert [task.gpus for _, task in world.allocate("job-1.0", "job-1.1").starts] == [[0], [1]]
    with pytest.raises(SubmitRefused, match=f"found 3 of {gpu_type}"):
        world.submit(resource={named: 3})
    kept = structs.replace(job_of("true", resource={"gpu": 1}), id="job-9")
    world.jobs.restore(kept, [Task("job-9", 0)])  # of a run with another name
    world.jobs.report()
    asked_for = [entry for request in requests_of(world.jobs.take()) for entry in request.allocations]
    assert {frozenset(entry.resource_per_alloc) & {"gpu", "nvidia.com/gpu", gpu_type} for entry in asked_for} == {
        frozenset((gpu_type,))
    }


def test_a_job_that_was_moved_is_shown_in_its_new_queue(world):
    """Kept once; a job that has ended, or is of somebody else, is no news."""
    world.submit(queue="root.web")
    for name, kept in ("job-1", ["root.batch"]), ("job-1", []), ("job-9", []):
        moved = [si.MovedApplication(application_id=name, queue_name="root.batch")]
        world.jobs.on_message(si.ApplicationResponse(moved=moved))
        assert [job.leaf for job in world.jobs.take().jobs.values()] == kept


def test_a_kept_job_goes_on(world):
    """Tasks that have ended stay as they are."""
    tasks = [Task("job-5", 0, State.COMPLETED), Task("job-5", 1, State.RUNNING), Task("job-5", 2)]
    world.jobs.restore(structs.replace(job_of("true", last=2), id="job-5"), tasks)
    assert [task.index for _, task in world.jobs.with_processes()] == [1]
    world.end(tasks[1], 0)
    ((_, last),) = world.allocate("job-5.2", of="job-5").starts
    assert world.end(last, 0).ended == ["job-5"]


def test_the_memory_of_a_cgroup(tmp_path):
    """The limit counts if there is one."""
    (tmp_path / "meminfo").write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    found = [memory_bytes(tmp_path, tmp_path)]
    for limit in ("max\n", "2048\n", "999999999\n"):
        (tmp_path / "memory.max").write_text(limit)
        found.append(memory_bytes(tmp_path, tmp_path))
    assert found == [1_024_000, 1_024_000, 2048, 1_024_000]


def test_the_cores_of_a_cgroup(tmp_path):
    """The quota counts if it is lower, as in a container that may use one and a half of 64 cores."""
    found = [vcore(4, tmp_path)]
    for quota in ("max 100000\n", "150000 100000\n", "800000 100000\n"):
        (tmp_path / "cpu.max").write_text(quota)
        found.append(vcore(4, tmp_path))
    assert found == [4000, 4000, 1500, 4000]


@pytest.mark.parametrize(("name", "user"), [("bob", "bob"), ("CORP\\bob", "uid7"), (None, "uid7")])
def test_the_name_of_the_user_is_one_for_the_daemon(monkeypatch, name, user):
    """The daemon would reject all jobs of another name (CF-21)."""

    def entry(number):
        if name is None:
            raise KeyError(number)
        return SimpleNamespace(pw_name=name)

    monkeypatch.setattr(machine, "pwd", SimpleNamespace(getpwuid=entry))
    monkeypatch.setattr(machine.os, "geteuid", lambda: 7)
    assert machine.this_user() == user


def test_the_gpus_of_a_machine(tmp_path):
    """The GPUs are those with a device, and no other file of the driver counts."""
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpu_indices(tmp_path) == [0, 2, 10]


# ---- a machine on which nothing may begin now


def test_what_has_its_place_begins_as_soon_as_nothing_keeps_it(world):
    """A task says why it does not begin; then it begins once, with the reason of its attempt."""
    world.submit()
    world.jobs.delay_starts("the disk is full")
    effects = world.allocate("job-1.0")
    assert (started(effects), effects.tasks["job-1", 0].reason) == ([], "has its place, and does not begin: the disk is full")
    world.jobs.delay_starts("the disk is full")
    assert started(world.take()) == []
    world.jobs.delay_starts("")
    effects = world.take()
    assert (started(effects), effects.tasks["job-1", 0].reason) == (["job-1.0"], "")
    world.jobs.delay_starts("")
    assert started(world.take()) == []


@pytest.mark.parametrize("how", ["cancelled", "released", "told again"])
def test_what_has_lost_its_place_meanwhile_does_not_begin(world, how):
    """The task was cancelled, its place was taken away, or the daemon was started again and places it anew."""
    world.submit()
    world.jobs.delay_starts("the disk is full")
    world.allocate("job-1.0")
    if how == "cancelled":
        world.jobs.cancel("job-1", None, "by me")
    elif how == "released":
        world.release("job-1.0", "PREEMPTED_BY_SCHEDULER")
    else:
        world.jobs.report()
    world.take()
    world.jobs.delay_starts("")
    assert started(world.take()) == []
    if how != "cancelled":
        assert started(world.allocate("job-1.0")) == ["job-1.0"]


def test_a_delayed_gang_begins_as_a_whole(world):
    """The other tasks wait for one that loses its place meanwhile."""
    world.submit(is_gang=True, last=1)
    world.allocate("job-1.placeholder1", "job-1.placeholder2", placeholder=True)
    world.jobs.delay_starts("the disk is full")
    assert started(world.allocate("job-1.0", "job-1.1")) == []
    world.release("job-1.1", "PREEMPTED_BY_SCHEDULER")
    world.jobs.delay_starts("")
    assert started(world.take()) == []
    assert started(world.allocate("job-1.1")) == ["job-1.0", "job-1.1"]
