"""Metrics of a real daemon, as Prometheus and the dashboards of Apache YuniKorn read them."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from daemon import RunningDaemon, new_token, real_daemon
from prometheus_client.parser import text_string_to_metric_families
from test_rest import Answer, ask, populated

PATH = "/ws/v1/metrics"
ACCESS = """
identities:
  - {name: prometheus, roles: [metrics]}
  - {name: dashboard, roles: [reader]}
  - {name: team, roles: [reader], queues: [root.a]}
  - {name: tenant, roles: [reader], partitions: [other]}
  - {name: ci, roles: [rm], rmIDs: [ci]}
"""


def values(answer: Answer) -> dict[str, float]:
    """Each series with its value, as the text has it; its parser agrees that it is one."""
    text = answer.body.decode()
    assert text.endswith("\n")
    assert (
        sum(len(family.samples) for family in text_string_to_metric_families(text)) == text.count("\n") - text.count("\n# ") - 1
    )
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in text.splitlines()) if series[0] != "#"}


async def test_names_and_values_of_yunikorn(tmp_path: Path) -> None:
    """Labels are named as there; amounts are in base units; histograms are in seconds, with its bounds."""
    async with populated(tmp_path) as (daemon, _):
        answer = await ask(daemon, PATH)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "access-control-allow-origin" not in answer.headers
        found = values(answer)
        scheduler = "yunikorn_scheduler_"
        expected = {
            f'{scheduler}container_allocation_attempt_total{{state="allocated"}}': 3,
            f'{scheduler}application_submission_total{{result="new"}}': 1,
            f'{scheduler}application_submission_total{{result="accepted"}}': 1,
            f'{scheduler}application_total{{state="running"}}': 1,
            f'{scheduler}node{{state="active"}}': 1,
            f'{scheduler}vcore_node_usage_total{{range="[0,10%]"}}': 0,
            f'{scheduler}vcore_node_usage_total{{range="(70%,80%]"}}': 1,
            f"{scheduler}trynode_latency_milliseconds_count": 3,
            f"{scheduler}trypreemption_latency_milliseconds_count": 0,
            'yunikorn_queue_app{queue="root.a",state="running"}': 1,
            'yunikorn_queue_resource{queue="root.a",resource="vcore",state="guaranteed"}': 1000,
            'yunikorn_queue_resource{queue="root.a",resource="memory",state="guaranteed"}': None,
            'yunikorn_queue_resource{queue="root.b",resource="vcore",state="max"}': None,
            'yunikorn_queue_resource{queue="root.b",resource="vcore",state="allocated"}': 0,
            'yunikorn_queue_resource{queue="root.a",resource="memory",state="max"}': 2**33,
            'yunikorn_queue_resource{queue="root.a",resource="vcore",state="pending"}': 2000,
            'yunikorn_queue_resource{queue="root",resource="vcore",state="allocated"}': 3000,
            'yunikorn_queue_resource{queue="root",resource="apps",state="maxRunningApps"}': None,
            f'{scheduler}container_allocation_attempt_total{{state="rejected"}}': 0,
            f'{scheduler}application_total{{state="failed"}}': 0,
            f'{scheduler}node{{state="decommissioned"}}': 0,
            'yunikorn_root_a_queue_container{state="released"}': 0,
            'yunikorn_queue_app_total{queue="root.a",state="completed"}': 0,
            'yunikorn_root_a_queue_container{state="allocated"}': 3,
            'ykactor_pending_asks{partition="default",reason="queue"}': 2,
            'ykactor_connections{role="rm"}': 1,
            "ykactor_session_waits_total": 0,
            "ykactor_ask_wait_seconds_count": 3,
            'ykactor_wait_seconds_total{queue="root.a",code="QUOTA"}': 0,
        }
        assert {series: found.get(series) for series in expected} == expected
        bounds = [series for series in found if series.startswith(f"{scheduler}scheduling_latency_milliseconds_bucket")]
        assert [series.split('"')[1] for series in bounds] == ["0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000", "+Inf"]
        assert found[f"{scheduler}scheduling_latency_milliseconds_sum"] < 10
        assert found["process_resident_memory_bytes"] > 10_000_000
        assert not [series for series in found if "_queue_app{" in series and "root_a" in series]


async def test_one_layer_of_gzip(tmp_path: Path) -> None:
    """The compressed body is the text itself."""
    async with populated(tmp_path) as (daemon, _):
        plain = await ask(daemon, PATH)
        packed = await ask(daemon, PATH, Accept_Encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        packed.body = gzip.decompress(packed.body)
        assert values(packed).keys() == values(plain).keys()


async def test_a_restart_begins_at_zero(tmp_path: Path) -> None:
    """Counters are of the process: what the journal has brought back is not counted again. Names of version 1.7 are an option."""
    arguments = ("--state-dir", tmp_path / "state")
    async with populated(tmp_path, *arguments) as (daemon, _):
        found = values(await ask(daemon, PATH))
        assert found["ykactor_journal_commit_seconds_count"] > 0
        assert found["ykactor_journal_stalled"] == 0
        assert found['yunikorn_root_a_queue_container{state="allocated"}'] == 3
        assert await daemon.stop() == 0
    async with real_daemon(*arguments, "--metrics-old-names", http="127.0.0.1:0") as daemon:
        found = values(await ask(daemon, PATH))
        attempts = [count for series, count in found.items() if series.startswith("yunikorn_scheduler_container")]
        assert attempts == [0, 0, 0, 0]
        assert found['yunikorn_root_a_queue_container{state="allocated"}'] == 0
        assert found["ykactor_ask_wait_seconds_count"] == 0
        assert found['yunikorn_queue_resource{queue="root.a",resource="vcore",state="allocated"}'] == 3000
        assert found['yunikorn_root_a_queue_resource{resource="vcore",state="allocated"}'] == 3000
        assert found['yunikorn_root_a_queue_app{state="running"}'] == 1


@asynccontextmanager
async def with_tokens(tmp_path: Path) -> AsyncIterator[tuple[RunningDaemon, dict[str, str]]]:
    """A daemon and the tokens of its identities."""
    file = tmp_path / "access.yaml"
    file.write_text(ACCESS)
    names = ("prometheus", "dashboard", "team", "tenant", "ci")
    tokens = {name: new_token(name, file) for name in names}
    async with real_daemon("--access", file, http="127.0.0.1:0") as daemon:
        yield daemon, tokens


async def test_who_may_read_metrics(tmp_path: Path) -> None:
    """SE-27: the roles metrics and reader, unless limited; the role metrics may read nothing else."""
    async with with_tokens(tmp_path) as (daemon, tokens):
        expected = {"prometheus": 200, "dashboard": 200, "team": 403, "tenant": 403, "ci": 403}
        answers = {name: await ask(daemon, PATH, Authorization=f"Bearer {token}") for name, token in tokens.items()}
        assert {name: answer.status for name, answer in answers.items()} == expected
        assert "of which metrics are (SE-27)" in answers["team"].content["message"]
        assert answers["ci"].content["message"] == "ci does not have the role metrics, which /ws/v1/metrics needs"
        assert (await ask(daemon, PATH)).status == 401
        nothing_else = await ask(daemon, "/ws/v1/partitions", Authorization=f"Bearer {tokens['prometheus']}")
        assert nothing_else.status == 403
