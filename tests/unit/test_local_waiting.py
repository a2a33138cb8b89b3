"""Tasks that the daemon is not asked for yet: holds, times, places of an array, the ends of other jobs, requeueing."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from localworld import S_NS, World, asked, concluded, released, requests_of
from msgspec import structs

from ykactor.local.jobs import Jobs, NotDone, SubmitRefused
from ykactor.local.model import After, Condition, Ended, State, Task
from ykactor.local.waiting import result
from ykactor.wire.si import messages as si

OK, ANY, FAILED = Condition


@pytest.fixture
def world():
    return World()


def changed(effects):
    """The state and the reason of each task that has changed, by its name."""
    return {f"{job}.{index}": (task.state, task.reason) for (job, index), task in effects.tasks.items()}


def applications(effects):
    """The applications that come and go, in order."""
    told = [request for request in effects.requests if isinstance(request, si.ApplicationRequest)]
    gone = [f"-{entry.application_id}" for request in told for entry in request.remove]
    return [entry.application_id for request in told for entry in request.new] + gone


# ---- holds and times


def test_a_held_job_is_no_ask_before_it_is_released(world):
    """The daemon is told nothing of it; its reason says what it waits for, and a second release is refused."""
    _, effects = world.submit(is_held=True)
    assert effects.requests == []
    assert changed(effects) == {"job-1.0": (State.WAITING, "is held: ykactor release lets it go on")}
    world.jobs.release("job-1", is_operator=True)
    effects = world.take()
    assert (asked(effects), applications(effects), changed(effects)) == (["job-1.0"], ["job-1"], {"job-1.0": (State.PENDING, "")})
    assert [job.is_held for job in effects.jobs.values()] == [False]
    with pytest.raises(NotDone, match="job-1 is not held"):
        world.jobs.release("job-1", is_operator=True)


def test_times_of_tasks_that_are_held_again_and_again_are_not_kept(world):
    """Nor those of jobs that were cancelled before: a user may do both any number of times."""
    later = 10**6 * S_NS
    world.submit(last=99, begin_ns=later)
    for _ in range(50):
        world.jobs.hold("job-1")
        world.jobs.release("job-1", is_operator=True)
    for number in range(2, 52):
        world.submit(last=99, begin_ns=later)
        world.jobs.cancel(f"job-{number}", None, "not wanted")
    assert len(world.jobs._book._times) <= 1100


def test_a_hold_stops_what_has_no_place_yet(world):
    """A place among those of the array that becomes free is not given away meanwhile."""
    world.submit(first=1, last=3, at_most=1)
    world.jobs.hold("job-1")
    assert {reason for _, reason in changed(world.take()).values()} == {"is held: ykactor release lets it go on"}
    effects = world.run("job-1.1")
    assert (asked(effects), applications(effects)) == ([], ["-job-1"])
    world.jobs.release("job-1", is_operator=True)
    effects = world.take()
    assert (asked(effects), applications(effects)) == (["job-1.2"], ["job-1"])


def told_hold(world, is_held, of="job-1"):
    """The daemon tells that an operator holds the application, or no longer (OP-9); what follows."""
    world.jobs.on_message(si.ApplicationResponse(held=[si.HeldApplication(of, is_held)]))
    return world.take()


def test_the_hold_of_an_operator_outlives_its_application(world):
    """The application of a job is removed while all that is left waits for a retry, and comes again when the job is released."""
    world.submit(retries=1, retry_delay_s=60)
    ((_, task),) = world.allocate("job-1.0").starts
    assert told_hold(world, True).jobs["job-1"].is_held_there
    assert told_hold(world, True, of="job-9").requests == []
    assert applications(world.end(task, 3)) == ["-job-1"]
    world.now_ns = 60 * S_NS
    world.jobs.on_time()
    effects = world.take()
    assert (effects.requests, changed(effects)["job-1.0"][1]) == ([], "attempt 1: exit code 3; is held by an operator")
    with pytest.raises(NotDone, match="job-1 is held by an operator at the daemon, and only operators can release it"):
        world.jobs.release("job-1", is_operator=False)
    world.jobs.release("job-1", is_operator=True)
    effects = world.take()
    assert (applications(effects), asked(effects)) == (["job-1"], ["job-1.0.r1"])
    assert not effects.jobs["job-1"].is_held_there


def test_the_daemon_ends_the_hold_of_an_application_that_it_knows(world):
    """The daemon is asked for further tasks, which are held there, and nobody ends this here; the own hold is another one."""
    world.submit(last=1, at_most=1)
    told_hold(world, True)
    world.jobs.hold("job-1")
    world.jobs.release("job-1", is_operator=True)
    with pytest.raises(NotDone, match="held by an operator at the daemon"):
        world.jobs.release("job-1", is_operator=True)
    assert asked(world.run("job-1.0")) == ["job-1.1"]
    assert not told_hold(world, False).jobs["job-1"].is_held_there


@pytest.mark.parametrize("is_gang", [False, True])
def test_a_daemon_that_has_forgotten_a_hold_is_asked_for_nothing_held(world, is_gang):
    """After a new registration (SC-141) only what runs is reported; the rest waits here for its release."""
    world.submit(last=1, is_gang=is_gang)
    if not is_gang:
        world.allocate("job-1.0")
    told_hold(world, True)
    world.jobs.report()
    effects = world.take()
    assert [key for key in asked(effects) if key != "job-1.0"] == []
    assert applications(effects) == ([] if is_gang else ["job-1"])
    assert changed(effects)["job-1.1"] == (State.WAITING, "is held by an operator")
    world.jobs.release("job-1", is_operator=True)
    assert asked(world.take()) == (["job-1.placeholder1", "job-1.placeholder2"] if is_gang else ["job-1.1"])


def test_a_task_begins_at_its_time(world):
    """The time is looked at with every tick; one that has passed is no obstacle."""
    _, effects = world.submit(begin_ns=90 * S_NS)
    assert changed(effects)["job-1.0"] == (State.WAITING, "does not begin before 1970-01-01T00:01:30Z")
    world.now_ns = 90 * S_NS - 1
    world.jobs.on_time()
    assert not world.take().has_changes
    world.now_ns = 90 * S_NS
    world.jobs.on_time()
    assert asked(world.take()) == ["job-1.0"]
    assert asked(world.submit(begin_ns=1)[1]) == ["job-2.0"]


def test_a_retry_waits_as_long_as_it_was_told(world):
    """The application leaves meanwhile, because it would be Completed after 30 seconds, and comes with its records."""
    world.submit(retries=1, retry_delay_s=60)
    effects = world.run("job-1.0", 3)
    assert (asked(effects), released(effects), applications(effects)) == ([], [], ["-job-1"])
    reason = "attempt 1: exit code 3; does not begin before 1970-01-01T00:01:00Z"
    assert changed(effects) == {"job-1.0": (State.WAITING, reason)}
    assert [(task.attempt, task.state, task.exit_code) for task in effects.attempts] == [(0, State.FAILED, 3)]
    world.now_ns = 60 * S_NS
    world.jobs.on_time()
    effects = world.take()
    assert (applications(effects), asked(effects)) == (["job-1"], ["job-1.0.r1"])
    assert concluded(world.run("job-1.0.r1"))[-1][:2] == ("job-1", "Completed")


# ---- places of an array


def test_an_array_has_as_many_asks_as_places(world):
    """The next ask comes before the release, so that the application does not complete in between; lists keep their order."""
    _, effects = world.submit(first=1, last=9, ranges=[(1, 2), (5, 5), (9, 9)], at_most=2)
    assert asked(effects) == ["job-1.1", "job-1.2"]
    assert changed(effects)["job-1.9"] == (State.WAITING, "waits for one of the 2 places of its array")
    first, second = (task for _, task in world.allocate("job-1.1", "job-1.2").starts)
    effects = world.end(first, 0)
    assert [len(request.allocations) for request in requests_of(effects)] == [1, 0]
    assert (asked(effects), released(effects)) == (["job-1.5"], [("job-1.1", "STOPPED_BY_RM")])
    assert (asked(world.end(second, 1)), asked(world.run("job-1.5")), applications(world.run("job-1.9"))) == (
        ["job-1.9"],
        [],
        ["-job-1"],
    )
    assert world.jobs.are_done


def test_a_cancelled_array_asks_for_nothing_more(world):
    """The tasks that wait end before those that have places, which would be given to them."""
    world.submit(last=4, at_most=2)
    ((_, running),) = world.allocate("job-1.0").starts
    world.jobs.cancel("job-1", None, "cancelled by me")
    effects = world.take()
    assert (asked(effects), effects.kills) == ([], [running])
    assert {state for state, _ in changed(effects).values()} == {State.CANCELLED, State.ENDING}
    assert concluded(world.end(running, 143)) == [("job-1", "Cancelled", "task 0: cancelled by me; 5 of 5 tasks")]


# ---- the ends of other jobs


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("condition", Condition)
def test_a_job_begins_after_another_one(world, condition, code):
    """A job begins if the other one has ended as wanted, before or after its submission; else it is Cancelled, which it says."""
    world.submit()
    _, effects = world.submit(after=[After("job-1", condition=condition)])
    word = {OK: "complete", ANY: "end", FAILED: "fail"}[condition]
    assert (effects.requests, changed(effects)) == ([], {"job-2.0": (State.WAITING, f"waits for job-1 to {word}")})
    effects = world.run("job-1.0", code)
    late = world.submit(after=[After("job-1", condition=condition)])[1]
    if condition is ANY or (condition is OK) == (code == 0):
        assert (asked(effects), asked(late)) == (["job-2.0"], ["job-3.0"])
    else:
        outcome = f"job-1 has {'not ' * bool(code)}completed, so that it can never begin (--after job-1:{condition})"
        assert changed(effects)["job-2.0"] == changed(late)["job-3.0"] == (State.CANCELLED, outcome)
        assert (effects.ended, late.ended) == (["job-1", "job-2"], ["job-3"])


def test_arrays_with_the_same_indexes_go_on_element_by_element(world):
    """Each task waits for the one with its index; with other indexes for the whole array, and so does a single job."""
    world.submit(last=1)
    for last in (1, 2, 0):
        world.submit(last=last, after=[After("job-1")])
    assert asked(world.run("job-1.1")) == ["job-2.1"]
    effects = world.run("job-1.0", 3)
    assert changed(effects)["job-2.0"] == (
        State.CANCELLED,
        "job-1.0 is Failed, so that it can never begin (--after job-1:ok)",
    )
    assert {changed(effects)[f"job-{name}"][0] for name in ("3.0", "3.1", "3.2", "4.0")} == {State.CANCELLED}


def test_a_job_waits_for_one_task_and_for_all_that_it_names(world):
    """The reasons are all named; the last one that ends lets it begin."""
    world.submit(last=2)
    world.submit()
    _, effects = world.submit(after=[After("job-1", 1, ANY), After("job-2")], is_held=True)
    reasons = "is held: ykactor release lets it go on; waits for job-1.1 to end; waits for job-2 to complete"
    assert changed(effects)["job-3.0"] == (State.WAITING, reasons)
    world.jobs.release("job-3", is_operator=True)
    world.take()
    assert asked(world.run("job-1.1", 3)) == []
    assert asked(world.run("job-2.0")) == ["job-3.0"]


def test_what_retries_has_not_ended(world):
    """A job that waits for it to fail waits for the last attempt."""
    world.submit(retries=1)
    world.submit(after=[After("job-1", condition=FAILED)])
    assert asked(world.run("job-1.0", 3)) == ["job-1.0.r1"]
    assert asked(world.run("job-1.0.r1", 3)) == ["job-2.0"]


def test_a_chain_that_cannot_begin_ends_at_once(world):
    """However long it is: one that waits for a cancelled one is cancelled too."""
    world.submit()
    for number in range(1, 3000):
        world.submit(after=[After(f"job-{number}")])
    effects = world.run("job-1.0", 1)
    assert len(effects.ended) == 3000
    assert world.jobs.are_done


def test_a_gang_waits_as_a_whole(world):
    """The placeholders are asked for when the gang may begin; if it never may, all of it ends."""
    world.submit()
    assert world.submit(is_gang=True, last=1, after=[After("job-1")])[1].requests == []
    assert asked(world.run("job-1.0")) == ["job-2.placeholder1", "job-2.placeholder2"]
    world.submit()
    world.submit(is_gang=True, last=1, after=[After("job-3")])
    effects = world.run("job-3.0", 1)
    assert {state for state, _ in changed(effects).values()} == {State.FAILED, State.CANCELLED}
    assert effects.ended == ["job-3", "job-4"]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([After("job-9")], "found --after job-9: there is no such job, or it has ended long ago and is forgotten"),
        ([After("job-1", 7)], "found --after job-1.7: job-1 has no such task"),
    ],
)
def test_a_dependency_that_is_not_known_is_refused(world, after, message):
    """A refused job leaves nothing, not even its number."""
    world.submit()
    with pytest.raises(SubmitRefused, match=message):
        world.submit(after=after)
    assert not world.jobs.take().has_changes
    assert world.submit()[0].id == "job-2"


def test_a_kept_job_goes_on_waiting_or_begins(world):
    """After a restart what a job waits for is derived again from the jobs that it names, those that have ended too."""
    job, _ = world.submit(after=[])
    again = Jobs(world.machine, 9, "boot", lambda: 0)
    again.restore(structs.replace(job, id="job-1"), [Task("job-1", 0, State.PENDING)])
    for name, after in (("job-2", "job-1"), ("job-3", "job-0")):
        again.restore(structs.replace(job, id=name, after=[After(after)]), [Task(name, 0, State.WAITING, reason="old")])
    assert again.unknown() == ["job-0"]
    again.resume({"job-0": result(job, {0: State.COMPLETED})})
    effects = again.take()
    assert changed(effects) == {"job-2.0": (State.WAITING, "waits for job-1 to complete"), "job-3.0": (State.PENDING, "")}
    again.report()
    assert asked(again.take()) == ["job-1.0", "job-3.0"]


def test_a_dependency_that_is_met_counts_no_longer(world):
    """The job that has waited keeps it: the other one may be requeued or forgotten meanwhile."""
    world.submit(last=1)
    job, _ = world.submit(last=1, after=[After("job-1")], is_held=True)
    world.run("job-1.1")
    effects = world.run("job-1.0")
    kept = effects.jobs["job-2"]
    assert kept == structs.replace(job, after=[After("job-1", is_by_element=True, is_met=True)])
    assert not world.jobs._book.dependencies.is_named("job-1")
    world.jobs.requeue(world.kept_jobs["job-1"], [Task("job-1", 0, State.COMPLETED)], [0], "again")
    world.jobs.release("job-2", is_operator=True)
    assert asked(world.take()) == ["job-1.0.r1", "job-2.0", "job-2.1"]
    again = Jobs(world.machine, 9, "boot", lambda: 0)
    again.restore(kept, [Task("job-2", index, State.WAITING) for index in (0, 1)])
    assert again.unknown() == []


def test_arrays_go_on_element_by_element_after_one_that_has_ended(world):
    """The ranges of the indexes may be written in another way."""
    world.submit(first=1, last=3, ranges=[(1, 2), (3, 3)])
    for key, code in ("job-1.1", 0), ("job-1.2", 3), ("job-1.3", 0):
        world.run(key, code)
    _, effects = world.submit(first=1, last=3, after=[After("job-1", is_met=True)])
    assert asked(effects) == ["job-2.1", "job-2.3"]
    assert changed(effects)["job-2.2"][0] is State.CANCELLED
    assert effects.jobs["job-2"].after == [After("job-1", is_by_element=True, is_met=True)]


def test_the_end_that_a_restart_finds_is_that_of_the_job(world):
    """The store has an older state of a task whose process has ended meanwhile."""
    job, _ = world.submit()
    task = Task("job-1", 0, State.RUNNING)
    again = Jobs(world.machine, 9, "boot", lambda: 0)
    again.restore(job, [task])
    again.restore(structs.replace(job, id="job-2", after=[After("job-1")]), [Task("job-2", 0, State.WAITING)])
    again.on_ended(task, Ended(0))
    assert again.unknown() == []
    again.resume({})
    assert changed(again.take()) == {"job-1.0": (State.COMPLETED, ""), "job-2.0": (State.PENDING, "")}


# ---- requeueing


def test_a_running_task_that_is_requeued_runs_again(world):
    """The task is ended first, with retries left, and also if it ends by itself meanwhile; cancelling it is the last word."""
    job, _ = world.submit(retries=1)
    for attempt, by_itself in ((0, False), (1, True)):
        key = f"job-1.0.r{attempt}".removesuffix(".r0")
        ((_, task),) = world.allocate(key).starts
        world.jobs.requeue(job, [task], [0], "requeued by me")
        effects = world.take()
        assert (effects.kills, task.state) == ([task], State.ENDING)
        world.jobs.on_ended(task, Ended(0, by_itself=by_itself))
        effects = world.take()
        assert asked(effects) == [f"job-1.0.r{attempt + 1}"]
        assert [each.state for each in effects.attempts] == [State.COMPLETED if by_itself else State.REQUEUED]
    assert asked(world.run("job-1.0.r2", 3)) == ["job-1.0.r3"]  # its retry
    ((_, task),) = world.allocate("job-1.0.r3").starts
    world.jobs.requeue(job, [task], [0], "requeued by me")
    world.jobs.cancel("job-1", None, "cancelled by me")
    assert world.end(task, 143).ended == ["job-1"]
    assert (task.state, task.reason) == (State.CANCELLED, "cancelled by me")


def test_an_ended_job_that_is_requeued_comes_back(world):
    """The tasks that are named run again, the others stay as they are; the daemon is told how those have ended."""
    job, _ = world.submit(last=2, after=[])
    tasks = [Task("job-1", index, state) for index, state in enumerate((State.COMPLETED, State.FAILED, State.COMPLETED))]
    again = World()
    again.jobs.requeue(job, tasks, [1], "requeued by me")
    effects = again.take()
    assert (asked(effects), applications(effects)) == (["job-1.1.r1"], ["job-1"])
    assert changed(effects) == {"job-1.1": (State.PENDING, "attempt 1: requeued by me")}
    assert effects.jobs == {"job-1": job}
    assert again.run("job-1.1.r1").ended == ["job-1"]


@pytest.mark.parametrize("state", [State.RUNNING, State.FAILED])
def test_a_job_with_a_terminal_is_not_requeued(world, state):
    """The terminal is gone, or is another window by now."""
    job, _ = world.submit(terminal=b"/dev/pts/7")
    with pytest.raises(NotDone, match="has a terminal"):
        world.jobs.requeue(job, [Task("job-1", 0, state)], [0], "requeued by me")
    assert not world.take().has_changes


def test_the_news_of_a_failure_before_a_job_was_requeued_ends_nothing(world):
    """The daemon was told of it by this program, and tells it back late; what an operator does afterwards holds."""
    job, _ = world.submit(last=1)
    tasks = [Task("job-1", 0, State.COMPLETED), Task("job-1", 1, State.FAILED, reason="exit code 3")]
    again = World()
    again.jobs.requeue(job, tasks, [1], "requeued by me")
    again.take()
    for message, expected in (("task 1: exit code 3", {}), ("failApplication", {}), ("Terminated", {"job-1.1": State.CANCELLED})):
        again.jobs.on_message(si.ApplicationResponse(updated=[si.UpdatedApplication("job-1", "Failed", 0, message)]))
        assert {name: state for name, (state, _) in changed(again.take()).items()} == expected


def test_what_cannot_be_requeued_is_refused(world):
    """A task that has not begun, or has had too many attempts, and a gang; then nothing changes."""
    job, effects = world.submit(last=1)
    tasks = list(effects.tasks.values())
    gang = structs.replace(job, is_gang=True)
    for of, found, message in (
        (job, tasks, "job-1.0 is Pending, expected a task that runs or has ended"),
        (structs.replace(job, id="job-9"), [Task("job-9", 0, State.FAILED, attempt=999)], "has had 1000 attempts"),
        (gang, tasks, "is a gang"),
    ):
        with pytest.raises(NotDone, match=message):
            world.jobs.requeue(of, found, [0], "")
    assert not world.take().has_changes


# ---- an invariant


class History:
    """Whatever may happen to jobs, and what the daemon knows of them."""

    def __init__(self, chance):
        self.chance = chance
        self.world = World()
        self.jobs = {}
        self.tasks = {}
        self.known = set()

    def step(self):
        often, seldom = [self.submit, self.place, self.end], [self.time, self.hold, self.cancel, self.requeue]
        with suppress(NotDone):
            self.chance.choice(often * 2 + seldom if self.jobs else [self.submit])()
        self.look(self.world.take())

    def submit(self):
        pick, later = self.chance.choice, self.world.now_ns + 5 * S_NS
        after = [After(pick(list(self.jobs)), condition=pick(list(Condition)))] if self.jobs and pick((True, False)) else []
        waits = {"is_held": pick((True, False, False)), "begin_ns": pick((0, later)), "after": after}
        fields = {"last": pick((0, 1, 2)), "at_most": pick((0, 1, 2)), "retries": pick((0, 1)), "retry_delay_s": pick((0, 5))}
        made = self.world.made(**fields, **waits)
        job = self.world.jobs.submit(lambda name: structs.replace(made, id=name), self.world.ended(made))
        self.jobs[job.id] = job

    def place(self):
        pending = [task.key for task in self.tasks.values() if task.state is State.PENDING]
        if pending:
            key = self.chance.choice(pending)
            new = si.Allocation(allocation_key=key, application_id=key.partition(".")[0], node_id="n1")
            self.world.jobs.on_message(si.AllocationResponse(new=[new]))

    def end(self):
        running = [task for task in self.tasks.values() if task.state.has_process]
        if running:
            ended = Ended(self.chance.choice((0, 1)), by_itself=self.chance.random() < 0.2)
            self.world.jobs.on_ended(self.chance.choice(running), ended)

    def time(self):
        self.world.now_ns += 5 * S_NS
        self.world.jobs.on_time()

    def hold(self):
        name = self.chance.choice(list(self.jobs))
        if self.chance.random() < 0.5:
            self.world.jobs.hold(name)
        else:
            self.world.jobs.release(name, is_operator=True)

    def cancel(self):
        self.world.jobs.cancel(self.chance.choice(list(self.jobs)), None, "cancelled")

    def requeue(self):
        job = self.jobs[self.chance.choice(list(self.jobs))]
        tasks = [self.tasks[job.id, index] for index in job.indexes]
        self.world.jobs.requeue(job, tasks, [self.chance.choice(tasks).index], "requeued")

    def look(self, effects):
        """Check the effects of one act against the state that follows from all of them."""
        for request in effects.requests:
            if isinstance(request, si.ApplicationRequest):
                self.known.update(entry.application_id for entry in request.new)
                self.known.difference_update(entry.application_id for entry in request.remove)
            else:
                assert {entry.application_id for entry in request.allocations} <= self.known
        self.tasks |= effects.tasks
        assert self.known == {task.job for task in self.tasks.values() if task.state.is_at_daemon}
        waiting = [task for task in self.tasks.values() if task.state is State.WAITING]
        assert all(task.reason for task in waiting)
        for job in self.jobs.values():
            present = [task for (name, _), task in self.tasks.items() if name == job.id]
            assert not job.at_most or sum(task.state.is_at_daemon for task in present) <= job.at_most

    def finish(self):
        """Nothing waits for ever: released, placed and ended, all of it ends."""
        for name in self.jobs:
            with suppress(NotDone):
                self.world.jobs.release(name, is_operator=True)
        for _ in range(200):
            self.time()
            self.look(self.world.take())
            self.place()
            self.look(self.world.take())
            for task in [task for task in self.tasks.values() if task.state.has_process]:
                self.world.jobs.on_ended(task, Ended(0))
                self.look(self.world.take())
        assert self.world.jobs.are_done


@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_the_daemon_knows_exactly_the_jobs_that_have_asks_or_allocations(chance, steps):
    """Whatever happens: no ask without its application, no idle application, no reason left out; and in the end all has ended."""
    history = History(chance)
    for _ in range(steps):
        history.step()
    history.finish()
