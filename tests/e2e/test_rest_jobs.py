"""Jobs in the REST API: what the resource manager says of them, and what the daemon knows itself (AP-160)."""

import pytest
from restdaemon import Rest, application, asks, node, rest_daemon

from ykactor.actors.commands import read_partition
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import PART_MAX, Steps, paced
from ykactor.surfaces.http.readings import jobs
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.si import messages as si

CONFIG = """
partitions:
  - {name: default, queues: [{name: root, submitacl: "*", queues: [{name: a, resources: {max: {vcore: 2}}}]}]}
  - {name: other, queues: [{name: root, submitacl: "*", queues: [{name: x}]}]}
"""
MEASURED = {"exit_code": 3, "message": "exit code 3", "eligible_time": 1, "start_time": 2, "finished_time": 3, "cpu_time": 4}


def told(job: str, **known: object) -> si.ApplicationRequest:
    return si.ApplicationRequest(jobs=[si.JobReport(application_id=job, **known)])  # type: ignore[arg-type]


async def found(rest: Rest, path: str) -> tuple[int, object]:
    answer = await rest.ask(path)
    return answer.status, answer.content


async def test_jobs_live_and_end() -> None:
    """A job has its progress and its attempts; those that run too, until they have ended."""
    async with rest_daemon(CONFIG) as rest:
        failed = si.TaskRecord(application_id="job-1", allocation_key="job-1-3", state="Failed", **MEASURED)
        release = si.AllocationRelease(application_id="job-1", allocation_key="job-1-3", termination_type="STOPPED_BY_RM")
        await rest.submit(
            node("n1"),
            application("job-1", "root.a", "alice"),
            application("other", "root.a"),
            told("job-1", name="train", tasks=9),
            asks("job-1", 4),
        )
        await rest.submit(
            si.ApplicationRequest(jobs=[si.JobReport(application_id="job-1", name="train", tasks=9, failed=1)], records=[failed]),
            si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release])),
        )
        _, (job,) = await found(rest, "/v1/jobs")
        words = (job["jobID"], job["partition"], job["name"], job["user"], job["queueName"], job["state"])
        assert words == ("job-1", "default", "train", "alice", "root.a", "Running")
        assert [job[name] for name in ("tasks", "running", "pending", "completed", "failed", "cancelled")] == [9, 2, 1, 0, 1, 0]
        answer = await rest.ask("/v1/jobs/job-1")
        alone = answer.content
        ended, *running = alone.pop("attempts")
        assert alone == job
        used = {"cpuTime": 4, "peakMemory": None}
        times = {"eligibleTime": 1, "startTime": 2, "finishedTime": 3}
        known = {"allocationKey": "job-1-3", "user": "alice", "nodeId": "n1", "queueName": "root.a"}
        assert ended == {**known, "state": "Failed", "exitCode": 3, "reason": "exit code 3", **times, **used}
        assert [(each["allocationKey"], each["state"], each["nodeId"]) for each in running] == [
            ("job-1-2", "Running", "n1"),
            ("job-1-1", "Running", "n1"),
        ]
        await rest.submit(
            told("job-1", name="train", tasks=9, failed=1, cancelled=8),
            si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id="job-1", outcome="Failed", message="why")]),
        )
        turn = int(answer.headers["ykactor-turn"].removeprefix("default=").partition(",")[0])
        later = {"ykactor_turn": f"default={turn + 1}", "ykactor_term": answer.headers["ykactor-term"]}
        alone = (await rest.ask("/v1/jobs/job-1", **later)).content
        assert (alone["state"], alone["reason"], alone["running"], alone["cancelled"]) == ("Failed", "why", 0, 8)
        assert alone["finishedTime"] > alone["submissionTime"]
        assert [each["state"] for each in alone["attempts"]] == ["Failed"]
        (again,) = (await rest.ask("/v1/jobs", **later)).content
        assert again == {name: value for name, value in alone.items() if name != "attempts"}
        for name in ("other", "none", "x" * 2000, "%00", "../jobs"):  # an application too, of which nobody says that it is a job
            assert (await found(rest, f"/v1/jobs/{name}"))[0] == 404


async def test_a_job_of_several_partitions_has_to_be_named_with_one() -> None:
    async with rest_daemon(CONFIG) as rest:
        for partition in ("default", "other"):
            queue = {"default": "root.a", "other": "root.x"}[partition]
            user = si.UserGroupInformation(user="alice")
            new = si.AddApplicationRequest(application_id="job", queue_name=queue, partition_name=partition, ugi=user)
            report = si.JobReport(application_id="job", partition_name=partition, tasks=1)
            await rest.submit(si.ApplicationRequest(new=[new], jobs=[report]))
        status, refusal = await found(rest, "/v1/jobs/job")
        assert (status, "default, other" in refusal["message"]) == (409, True)
        _, job = await found(rest, "/v1/jobs/job?partition=other")
        assert (job["partition"], job["queueName"], job["state"]) == ("other", "root.x", "Pending")
        assert (await found(rest, "/v1/jobs/job?partition=no"))[0] == 404
        _, jobs = await found(rest, "/v1/jobs")
        assert [each["partition"] for each in jobs] == ["default", "other"]
        assert await found(rest, "/v1/jobs?partition=OTHER") == (200, [job for job in jobs if job["partition"] == "other"])
        assert (await found(rest, "/v1/jobs?partition=no"))[0] == 404


async def test_the_newest_jobs_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest ones of each partition, and a header that says how many older ones there are; another one has no header."""
    monkeypatch.setattr(jobs, "JOBS_MAX", 2)
    async with rest_daemon(CONFIG) as rest:
        for number in range(4):
            await rest.submit(application(f"job-{number}", "root.a"), told(f"job-{number}", tasks=1))
        answer = await rest.ask("/v1/jobs")
        assert [each["jobID"] for each in answer.content] == ["job-2", "job-3"]
        assert answer.headers["ykactor-left-out"] == "2 older ones are not in this list"
        assert (await rest.ask("/v1/jobs?partition=default")).body == answer.body
        answer = await rest.ask("/v1/jobs?partition=other")
        assert (answer.content, "ykactor-left-out" in answer.headers) == ([], False)


async def test_what_is_no_job_is_passed_over_in_steps() -> None:
    """The partition works in between, also if nothing is found."""
    async with rest_daemon(CONFIG) as rest:
        await rest.submit(*(application(f"app-{number}", "root.a") for number in range(3 * PART_MAX)))
        pauses = list[int]()

        def counted(core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[None]:
            pauses.append(sum(1 for _ in paced(jobs.newest(Look(core, state, now_ns, None)))))
            yield PART_MAX

        await read_partition(rest.daemon.partitions["default"], counted)
        assert pauses == [3]


async def test_placeholders_are_no_tasks_of_a_job() -> None:
    """A gang of which only placeholders run or wait is pending, and nothing of it runs or waits."""
    async with rest_daemon(CONFIG) as rest:
        held = [
            si.Allocation(
                application_id="gang",
                allocation_key=f"p{number}",
                resource_per_alloc={"vcore": 1000},
                placeholder=True,
                task_group_name="g",
            )
            for number in range(3)
        ]
        new = si.AddApplicationRequest(
            application_id="gang",
            queue_name="root.a",
            ugi=si.UserGroupInformation(user="alice"),
            placeholder_ask={"vcore": 2000},
        )
        await rest.submit(
            node("n1"), si.ApplicationRequest(new=[new]), told("gang", tasks=3), si.AllocationRequest(allocations=held)
        )
        _, job = await found(rest, "/v1/jobs/gang")
        assert (job["state"], job["running"], job["pending"], "attempts" in job) == ("Pending", 0, 0, False)
        shown = await rest.read("partition/default/application/gang")
        assert (len(shown["allocations"]), len(shown["requests"])) == (2, 1)
