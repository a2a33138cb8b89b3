"""A turn that takes long lets other tasks run, and nothing that they send takes effect before it ends."""

import trio
from test_partition_actor import stage
from world import app, ask, configure, node, queue, tree

from ykactor.actors import owners
from ykactor.actors.commands import Intake, Publication, TakeSnapshot
from ykactor.core.messages.facts import Allocated, AskAdded, ReleaseStarted
from ykactor.core.values import parts


def text(limit):
    leaf = queue("a", p={"quota.preemption.delay": "10s"}, max={"vcore": limit})
    return tree(leaf, queue("b"), preemption={"quotapreemptionenabled": True})


async def test_input_during_a_plan_is_handled_after_it(seed, autojump_clock, monkeypatch):
    """Asks, and a request for a snapshot between them, that come while a plan pauses: after its facts, in their order."""
    monkeypatch.setattr(parts, "PART_MAX", 3)
    running = [ask(f"t{number:02}", "app-1", vcore=1, on="n1") for number in range(20)]
    late = [ask(f"late-{number}", "app-2", vcore=1) for number in range(3)]
    async with stage(text(20)) as s:
        setup = [node("n1", vcore=100), app("app-1", "root.a"), app("app-2", "root.b"), *running, configure(text(10))]
        await s.send(*setup)
        quiet = len(s.told)
        pauses = 0
        pause = owners.pause

        async def pause_with_input():
            """Pauses that deliver one command each, in the first pauses of the plan."""
            nonlocal pauses
            if trio.current_time() >= 10:
                commands = [Intake([late[0]]), TakeSnapshot(1), Intake([late[1]]), Intake([late[2]])]
                if pauses < len(commands):
                    assert len(s.told) == quiet
                    s.actor.inbox.put_nowait(commands[pauses])
                pauses += 1
            await pause()

        monkeypatch.setattr(owners, "pause", pause_with_input)
        await s.until(11)
        assert pauses > 4
        told = s.told[quiet:]
        facts = [fact for command in told if isinstance(command, Publication) for fact in command.facts]
        kinds = (ReleaseStarted, AskAdded, Allocated)
        keys = [(type(fact), fact.ask.allocation_key) for fact in facts if isinstance(fact, kinds)]
        assert [kind for kind, _ in keys] == [ReleaseStarted] * 10 + [AskAdded, *[AskAdded, AskAdded], *[Allocated] * 3]
        assert [key for kind, key in keys if kind is AskAdded] == ["late-0", "late-1", "late-2"]
        snapshot = next(command for command in told if not isinstance(command, Publication)).state
        assert snapshot.applications["app-2"].pending[0].allocation_keys == ["late-0"]
        assert snapshot.preemption.victims == 10
