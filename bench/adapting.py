"""Cost of the adapter for Kubernetes, each figure beside what the same work costs its client alone, by turns.

Costs are CPU times of the process of the adapter; other processes make them longer, never shorter, so the smallest of the rounds
count, on both sides.
"""

import os
import signal
from pathlib import Path
from statistics import median
from time import perf_counter
from timeit import repeat

import msgspec
import trio
from msgspec import Struct

from bench.kubeobjects import Body, node, pod
from bench.measures import Samples
from bench.town import Running, Town, running_town, settled
from ykactor.client import follow
from ykactor.kubernetes import model
from ykactor.kubernetes.leader import DURATION_S, RENEW_S
from ykactor.kubernetes.messages import Changed, Heard, Kind, Listed, Tell
from ykactor.kubernetes.pods import key_of
from ykactor.kubernetes.state import State
from ykactor.wire.si import messages as si

#: Heartbeats that come together.
_AT_ONCE = 20
#: After a kill, until what was on its way has arrived.
_IN_FLIGHT_S = 0.5
#: After this time a ConfigMap has been seen.
_SEEN_S = 0.2
#: Requests per second of an adapter that has no ConfigMap.
_QPS = 200


class Backlog(Struct, frozen=True):
    """Pods that are created at once."""

    nodes: int
    pods: int
    rounds: int


async def bind(backlog: Backlog) -> Samples:
    """The cost of a pod from its creation until the adapter has seen that it runs, by that of a bind by the client alone.

    ``ratio`` is without Events, for which there is no room in one request per second; ``told_ratio`` with one for each pod.
    """
    costs: dict[str, list[float]] = {"bare_us": [], "cpu_us": [], "told_cpu_us": []}
    seconds = list[float]()
    async with (
        running_town(backlog.nodes) as bare,
        running_town(backlog.nodes) as quiet,
        running_town(backlog.nodes) as telling,
        quiet.adapter("--no-lease", "--qps", "1") as untold,
        telling.adapter() as told,
    ):
        for number in range(-1, backlog.rounds):  # the first one makes connections and an application
            bare_s = await _bound_by_client(bare, backlog)
            began_s = perf_counter()
            untold_s = await _bound(quiet, untold, backlog, number)
            wall_s = perf_counter() - began_s
            told_s = await _bound(telling, told, backlog, number, events=backlog.pods)
            if number >= 0:
                seconds.append(wall_s)
                for costs_s, name in ((bare_s, "bare_us"), (untold_s, "cpu_us"), (told_s, "told_cpu_us")):
                    costs[name].append(costs_s * 1e6 / backlog.pods)
    least = min(costs["bare_us"])
    ratios = {"ratio": [min(costs["cpu_us"]) / least], "told_ratio": [min(costs["told_cpu_us"]) / least]}
    return {**ratios, **costs, "wall_s": seconds}


async def _bound_by_client(town: Town, backlog: Backlog) -> float:
    names = [f"bare-{number}" for number in range(backlog.pods)]
    for name in names:
        town.server.put("pods", pod(name))
    cpu_s = await town.bare("bind", backlog.pods)
    await _clear(town)
    return cpu_s


async def _bound(town: Town, running: Running, backlog: Backlog, number: int, events: int = 0) -> float:
    """CPU seconds until so many pods are bound, and so many Events are written."""
    server = town.server
    server.counts.clear()
    began_s = await settled(running.adapter_pid)
    for each in range(backlog.pods):
        server.put("pods", pod(f"r{number}-{each}"))
    await server.until(lambda: server.counts["POST binding"] == backlog.pods and server.counts["POST events"] >= events)
    ended_s = await settled(running.adapter_pid)
    await _clear(town)
    return ended_s - began_s


async def _clear(town: Town) -> None:
    for name in list(town.server.objects["pods"]):
        town.server.remove("pods", name)


# ---- much that is new


class Telling(Struct, frozen=True):
    """Pods that come evenly, beside many that wait and of which each gets a condition that says why.

    Attributes:
        pods: that come, one every ``pause_s``, and find room.
        waiting: that find none.
    """

    nodes: int
    pods: int
    waiting: int
    rounds: int
    pause_s: float = 0.03


async def bind_beside_conditions(telling: Telling) -> Samples:
    """Median time from decisions to binds, while conditions of waiting pods are written, by that of a cluster without them."""
    times: dict[str, list[float]] = {"without_ms": [], "ms": []}
    async with (
        running_town(telling.nodes) as alone,
        running_town(telling.nodes) as crowded,
        alone.adapter() as quiet,
        crowded.adapter() as running,
        trio.open_nursery() as nursery,
    ):
        server, decided_ns = crowded.server, dict[str, int]()
        for url in (quiet.url, running.url):
            await nursery.start(_note_decisions, url, decided_ns)
        await _allow(crowded, 1)
        for each in range(telling.waiting):
            server.put("pods", pod(f"w{each}", cpu="1000"))
        await _bind_evenly(alone, decided_ns, "first", 1, telling.pause_s)
        await _bind_evenly(crowded, decided_ns, "last", 1, telling.pause_s)  # it comes behind those that wait
        for number in range(telling.rounds):
            times["without_ms"].append(await _bind_evenly(alone, decided_ns, f"a{number}", telling.pods, telling.pause_s))
            await _allow(crowded, _QPS)
            times["ms"].append(await _bind_evenly(crowded, decided_ns, f"b{number}", telling.pods, telling.pause_s))
            await _allow(crowded, 1)
        written = server.counts["PATCH status"]
        if written >= telling.waiting:
            raise RuntimeError("all conditions were written before the pods were bound")
        nursery.cancel_scope.cancel()
    told_hz = written / (telling.rounds * telling.pods * telling.pause_s)
    return {"ratio": [min(times["ms"]) / min(times["without_ms"])], **times, "told_hz": [told_hz]}


async def _allow(town: Town, qps: int) -> None:
    """Let the adapter send so many requests per second, so that it does not work beside the other cluster."""
    town.server.put("configmaps", {"metadata": {"name": "yunikorn-configs"}, "data": {"kubernetes.qps": str(qps)}})
    await trio.sleep(_SEEN_S)


async def _note_decisions(url: str, decided_ns: dict[str, int], task_status: trio.TaskStatus[None]) -> None:
    """Note when each pod was placed."""
    async with follow(url, from_="now") as events:
        task_status.started()
        async for event in events:
            if isinstance(event, si.EventRecord) and event.event_change_detail == "APP_ALLOC":
                decided_ns[event.reference_id] = event.timestamp_nano


async def _bind_evenly(town: Town, decided_ns: dict[str, int], prefix: str, count: int, pause_s: float) -> float:
    """The median time from decisions to binds, in ms."""
    names = [f"{prefix}-{number}" for number in range(count)]
    keys = {name: key_of(msgspec.convert(pod(name), model.Pod)) for name in names}
    began_s = trio.current_time()
    for number, name in enumerate(names):
        await trio.sleep_until(began_s + number * pause_s)
        town.server.put("pods", pod(name))
    await town.server.until(lambda: all(name in town.server.bound_ns for name in names))
    while not all(key in decided_ns for key in keys.values()):  # noqa: ASYNC110
        await trio.sleep(0.05)
    return median((town.server.bound_ns[name] - decided_ns[key]) / 1e6 for name, key in keys.items())


# ---- first reports and heartbeats


class Fleet(Struct, frozen=True):
    """Nodes and pods that run there, or heartbeats of the nodes.

    Attributes:
        pods: of all nodes.
        beats: of each node.
    """

    nodes: int
    pods: int
    rounds: int
    beats: int = 0


async def report(fleet: Fleet) -> Samples:
    """The cost of a running pod that is reported to a daemon that knows nothing, by that of listing and decoding it."""
    costs: dict[str, list[float]] = {"bare_us": [], "cpu_us": []}
    seconds = list[float]()
    async with running_town(fleet.nodes) as town:
        for number in range(fleet.pods):
            town.server.put("pods", pod(f"p{number}", node=f"n{number % fleet.nodes}"))
        for _ in range(fleet.rounds):
            costs["bare_us"].append(await town.bare("list", fleet.pods) * 1e6 / fleet.pods)
            cpu_s, wall_s = await _reported(town, fleet.pods)
            costs["cpu_us"].append(cpu_s * 1e6 / fleet.pods)
            seconds.append(wall_s)
        decode_us = _decode_us(list(town.server.objects["pods"].values()), model.Pod)
    return {"ratio": [min(costs["cpu_us"]) / min(costs["bare_us"])], **costs, "decode_us": [decode_us], "wall_s": seconds}


async def _reported(town: Town, count: int) -> tuple[float, float]:
    """CPU seconds and seconds of an adapter that has everything but the pods, until the daemon has confirmed all of them."""
    town.server.holds.add("pods")
    town.server.counts.clear()
    async with town.adapter() as running:
        await town.server.until(lambda: town.server.counts["GET nodes"] > 0)
        began_cpu_s = await settled(running.adapter_pid)
        began_s, left = perf_counter(), count
        async with follow(running.url, from_=0) as events:
            town.server.release()
            async for event in events:
                left -= isinstance(event, si.EventRecord) and event.event_change_detail == "APP_ALLOC"
                if not left:
                    break
        wall_s = perf_counter() - began_s
        return await settled(running.adapter_pid) - began_cpu_s, wall_s


async def heartbeats(fleet: Fleet) -> Samples:
    """The cost of a heartbeat of a node, by that of watching and decoding it."""
    costs: dict[str, list[float]] = {"bare_us": [], "cpu_us": []}
    count = fleet.nodes * fleet.beats
    async with running_town(fleet.nodes) as town, town.adapter() as running:
        town.server.put("pods", pod("first"))
        await town.server.until(lambda: "first" in town.server.bound_ns)
        for _ in range(fleet.rounds):
            async with trio.open_nursery() as nursery:
                bare_s = await town.bare("watch", count, lambda: nursery.start_soon(_beat, town, fleet))
            began_s = await settled(running.adapter_pid)
            await _beat(town, fleet)
            costs["bare_us"].append(bare_s * 1e6 / count)
            costs["cpu_us"].append((await settled(running.adapter_pid) - began_s) * 1e6 / count)
        decode_us = _decode_us(list(town.server.objects["nodes"].values()), model.Node)
    return {"ratio": [min(costs["cpu_us"]) / min(costs["bare_us"])], **costs, "decode_us": [decode_us]}


async def _beat(town: Town, fleet: Fleet) -> None:
    """All nodes send heartbeats, some at once."""
    for beat in range(fleet.beats):
        for number in range(fleet.nodes):
            town.server.put("nodes", node(f"n{number}", beat))
            if number % _AT_ONCE == 0:
                await trio.sleep(0.001)


def _decode_us(bodies: list[Body], kind: type[model.Object]) -> float:
    """The cost of decoding an object that is in memory already."""
    lines, decoder = [msgspec.json.encode(body) for body in bodies], msgspec.json.Decoder(kind)
    return min(repeat(lambda: [decoder.decode(line) for line in lines], number=1, repeat=5)) * 1e6 / len(lines)


# ---- answers about nodes


class Answering(Struct, frozen=True):
    """Classes of pods on a cluster.

    Attributes:
        classes: pods of so many classes; each number is tried.
    """

    nodes: int
    classes: tuple[int, ...]


async def answer(answering: Answering) -> Samples:
    """Measure the number of answers that the daemon is sent when one node changes, by the number of classes."""
    return {"ratio": [_answers(answering.nodes, classes) / classes for classes in answering.classes]}


def _answers(nodes: int, classes: int) -> int:
    state = State("ykactor")
    bodies = {Kind.NODES: [node(f"n{number}") for number in range(nodes)], Kind.PODS: list[Body]()}
    for number in range(classes):
        waiting = pod(f"p{number}")
        waiting["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux", **({"class": str(number)} if number % 2 else {})}
        waiting["spec"]["tolerations"] = [{"key": str(number), "operator": "Exists"}]
        bodies[Kind.PODS].append(waiting)
    types = {Kind.NODES: model.Node, Kind.PODS: model.Pod}
    objects = {kind: [msgspec.convert(body, types[kind]) for body in bodies.get(kind, [])] for kind in Kind}
    state.handle([Listed(kind, found) for kind, found in objects.items()], 0)
    state.handle([Heard(si.RegisterResourceManagerResponse())], 0)
    changed = node("n0", cpu="32")
    changed["spec"]["taints"] = [{"key": "new", "effect": "NoSchedule"}]
    effects = state.handle([Changed(Kind.NODES, msgspec.convert(changed, model.Node))], 1)
    requests = [effect.request for effect in effects if isinstance(effect, Tell)]
    return sum(len(request.answers) for request in requests if isinstance(request, si.PredicatesResponse))


# ---- takeovers


class Takeover(Struct, frozen=True):
    """Two replicas, of which the one that leads is killed while pods come evenly."""

    nodes: int
    rounds: int


async def take_over(takeover: Takeover) -> Samples:
    """Measure the time in which nothing is decided, by the duration of the Lease."""
    async with running_town(takeover.nodes) as town:
        gaps_s = [await _gap(town, number) for number in range(takeover.rounds)]
    return {"ratio": [gap_s / DURATION_S for gap_s in gaps_s], "gap_s": gaps_s}


async def _gap(town: Town, number: int) -> float:
    """Seconds between the last bind by the one replica and the first one by the other."""
    server = town.server
    server.objects["leases"].clear()
    async with trio.open_nursery() as nursery, town.adapter("--identity", f"first-{number}") as leading:
        nursery.start_soon(_put_evenly, town, f"t{number}")
        bound = len(server.bound_ns)
        await server.until(lambda: len(server.bound_ns) > bound)
        server.counts.clear()
        async with town.adapter("--identity", f"second-{number}"):
            await server.until(lambda: server.counts["GET pods"] > 0)
            await trio.sleep(2 * RENEW_S + number * 1.7)  # at another moment between two renewals in each round
            os.kill(leading.adapter_pid, signal.SIGKILL)
            os.kill(leading.daemon_pid, signal.SIGKILL)
            await trio.sleep(_IN_FLIGHT_S)
            last_ns, bound = max(server.bound_ns.values()), len(server.bound_ns)
            await server.until(lambda: len(server.bound_ns) > bound)
            gap_s = (max(server.bound_ns.values()) - last_ns) / 1e9
        nursery.cancel_scope.cancel()
    await _clear(town)
    return gap_s


async def _put_evenly(town: Town, prefix: str) -> None:
    """A new pod now and then, for ever."""
    number = 0
    while True:
        town.server.put("pods", pod(f"{prefix}-{number}", cpu="1m"))
        number += 1
        await trio.sleep(0.1)


# ---- an API server that does not answer


class Stall(Struct, frozen=True):
    """Pods that come and go while the API server shows them, but answers no request that writes.

    Attributes:
        pods: of a wave, half of which find room.
    """

    nodes: int
    pods: int
    waves: int


async def grow(stall: Stall) -> Samples:
    """Measure the growth of the adapter's memory while no write is answered."""
    async with running_town(stall.nodes) as town, town.adapter() as running:
        server = town.server
        await _wave(town, running, stall, "warm")
        before_mib = _memory_mib(running.adapter_pid)
        server.is_stalled = True
        grown = list[float]()
        for number in range(stall.waves):
            await _wave(town, running, stall, f"s{number}")
            grown.append(_memory_mib(running.adapter_pid) - before_mib)
    return {"grown_mib": [max(grown)]}


async def _wave(town: Town, running: Running, stall: Stall, prefix: str) -> None:
    """Pods come, are decided about, and go."""
    for number in range(stall.pods):
        town.server.put("pods", pod(f"{prefix}-{number}", cpu="1000" if number % 2 else "1m"))
    await settled(running.adapter_pid)
    await _clear(town)
    await settled(running.adapter_pid)


def _memory_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
