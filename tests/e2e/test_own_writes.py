"""DU-24: a write is acknowledged with the turn in which it took effect, and who reads with that turn reads it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from daemon import application, node, real_daemon
from replicas import ask, running_replica

from ykactor.client import RequestRefused, check_health, connect, follow, operate, read_configuration, read_usage
from ykactor.wire.si import messages as si

CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: "*", queues: [{name: a}]}]
  - name: gpu, 2
    queues: [{name: root, submitacl: "*"}]
"""
APPLICATIONS = "/ws/v1/partition/default/applications/active"


async def test_what_was_written_is_read_at_the_daemon(tmp_path: Path) -> None:
    """Answers are shown for a while to all who ask; not to who has written since."""
    async with (
        real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm") as rm,
    ):
        last = 0
        for number in range(20):
            ack = await rm.request(application(f"app-{number}"))
            answer = await ask(daemon, APPLICATIONS, ykactor_turn=f"default={ack.turns['default']}")
            assert f"app-{number}" in {found["applicationID"] for found in answer.content}
            shown = int(answer.headers["ykactor-turn"].removeprefix("default="))
            assert shown >= ack.turns["default"] > last
            last = ack.turns["default"]


async def test_turns_are_named(tmp_path: Path) -> None:
    """An answer names the turns of the partitions that it was read from, and their term; a refusal too."""
    (tmp_path / "queues.yaml").write_text(CONFIG)
    arguments = ("--config", tmp_path / "queues.yaml")
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon, connect(daemon.url, rm_id="rm") as rm:
        async with operate(daemon.url) as operator:
            ack = await operator.request(si.HoldQueue(queue_name="root.a"))
        assert [*ack.turns] == ["default", "gpu, 2"]
        one = await ask(daemon, APPLICATIONS)
        assert (one.headers["ykactor-turn"], one.headers["ykactor-term"]) == (f"default={ack.turns['default']}", ack.term)
        both = f"default={ack.turns['default']}, gpu%2C%202={ack.turns['gpu, 2']}"
        assert (await ask(daemon, "/ws/v1/partitions")).headers["ykactor-turn"] == both
        asked = {"ykactor_turn": both, "ykactor_term": ack.term}
        assert (await ask(daemon, "/ws/v1/partitions", **asked)).status == 200
        lacking = await ask(daemon, "/ws/v1/partition/default/application/none", **asked)
        assert (lacking.status, lacking.headers["ykactor-turn"]) == (404, f"default={ack.turns['default']}")
        assert "ykactor-turn" not in (await ask(daemon, "/ws/v1/config")).headers
        assert "ykactor-turn" not in (await ask(daemon, "/livez")).headers
        assert (await rm.request(si.NodeRequest(id="x"))).turns == {}
        assert (await rm.request(node())).turns.keys() == {"default"}


@pytest.mark.parametrize(
    "wrong", ["", "default", "default=", "=1", "default=-1", "default=1,", "default=1x", f"default={10**19}"]
)
async def test_a_wrong_header(wrong: str) -> None:
    """A header that cannot be read is refused with what was expected."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        answer = await ask(daemon, APPLICATIONS, ykactor_turn=wrong)
        assert (answer.status, "expected such as default=812" in answer.body.decode()) == (400, True)


async def test_another_history(tmp_path: Path) -> None:
    """A daemon never waits: a turn of its own history is there, and of another one nothing ever is."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        assert (await ask(daemon, APPLICATIONS, ykactor_turn="default=1000000")).status == 200
        answer = await ask(daemon, APPLICATIONS, ykactor_turn="default=1", ykactor_term="7-aa")
        assert (answer.status, "term of another history" in answer.body.decode()) == (412, True)
        other = si.Ack(id="", term="7-aa", turns={"default": 1})
        for question in (read_configuration, check_health, read_usage):
            with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
                await question(daemon.url, after=other)


async def test_what_was_written_is_read_at_a_replica(tmp_path: Path) -> None:
    """A replica waits until it has the turn, and the configuration; without the turn it shows what it has."""
    async with (
        real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm") as rm,
        running_replica(daemon.url) as replica,
        operate(daemon.url) as operator,
    ):
        for number in range(10):
            ack = await rm.request(application(f"app-{number}", "root.default"))
            turn = f"default={ack.turns['default']}"
            while (answer := await ask(replica, APPLICATIONS, ykactor_turn=turn)).status == 503:  # there is no copy at first
                assert answer.headers["retry-after"] == "2"
            assert f"app-{number}" in {found["applicationID"] for found in answer.content}
            applied = await operator.request(si.UpdateConfigurationRequest(config=CONFIG.replace("name: a", f"name: a{number}")))
            assert (await read_configuration(replica.url, after=applied)).checksum == applied.checksum
            async with follow(replica.url, from_="snapshot", after=applied) as follower:
                snapshot = await anext(follower)
            assert isinstance(snapshot, si.Snapshot)
            assert f"root.a{number}" in snapshot.partitions[0].queues


async def test_what_never_comes_is_waited_for_until_the_client_is_told(tmp_path: Path) -> None:
    """A replica whose daemon is silent: 503 with Retry-After, and UNAVAILABLE to followers."""
    async with (
        real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm") as rm,
        running_replica(daemon.url) as replica,
    ):
        ack = await rm.request(node())
        await replica.wait_logged("partition_copied")
        turn = f"default={ack.turns['default']}"
        assert (await ask(replica, APPLICATIONS, ykactor_turn=turn)).status == 200
        daemon.process.send_signal(signal.SIGSTOP)
        late = si.Ack(id="", term=(await ask(replica, APPLICATIONS)).headers["ykactor-term"], turns={"default": 10**9})
        answer = await ask(replica, APPLICATIONS, ykactor_turn=f"default={10**9}", ykactor_term=late.term)
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        with pytest.raises(RequestRefused, match="UNAVAILABLE"):
            await read_usage(replica.url, after=late)
        assert (await ask(replica, APPLICATIONS, ykactor_turn=turn)).status == 200
        daemon.process.send_signal(signal.SIGCONT)
