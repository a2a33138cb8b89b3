"""``ykactor simulate --compare``: the time of two runs in processes of their own, and the memory of the larger one."""

import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import trio
import yaml
from msgspec import Struct

from bench.measures import Samples
from ykactor.wire.scenario import Scenario, TimedRequest, dump_jsonl
from ykactor.wire.si import messages as si

_DAY_S = 86_400
#: The last tasks end before the end of the run.
_BEFORE_END = 0.97
_SIZES = (1, 2, 4, 8)


class Compared(Struct, frozen=True):
    """A long scenario, and two configurations of the same queues.

    Attributes:
        nodes: each with ``cores`` cores.
        asks: of 1, 2, 4 or 8 cores, in applications of ``each``, at random times.
        load: the part of the cluster that they use on average, if none waits for long.
    """

    nodes: int
    asks: int
    days: int
    load: float
    each: int = 1
    cores: int = 32

    def scenario(self) -> Scenario:
        """The nodes, then applications in four leaves, of 40 users in 6 groups."""
        until = float(self.days * _DAY_S)
        return Scenario("compared", queues(guaranteed=True), until, messages=list(self._messages(until)))

    def _messages(self, until: float) -> Iterator[TimedRequest]:
        rng = random.Random(31)
        capacity = {"vcore": str(self.cores), "memory": f"{4 * self.cores}Gi"}
        nodes = [si.NodeInfo(f"n{number}", "CREATE", schedulable_resource=capacity) for number in range(self.nodes)]
        yield TimedRequest(0, si.NodeRequest(nodes=nodes))
        mean_s = self.load * self.nodes * self.cores * until * _BEFORE_END / (self.asks * sum(_SIZES) / len(_SIZES))
        times = sorted(rng.uniform(0, until * _BEFORE_END) for _ in range(self.asks // self.each))
        for number, at in enumerate(times):
            yield from self._application(f"app-{number}", at, rng, mean_s)

    def _application(self, name: str, at: float, rng: random.Random, mean_s: float) -> Iterator[TimedRequest]:
        who = si.UserGroupInformation(f"u{rng.randrange(40)}", [f"g{rng.randrange(6)}"])
        new = si.AddApplicationRequest(name, rng.choice(LEAVES), ugi=who)
        asks, run_seconds = [], {}
        for number in range(self.each):
            cores = rng.choice(_SIZES)
            amounts = {"vcore": str(cores), "memory": f"{3 * cores}Gi"}
            asks.append(si.Allocation(f"{name}-{number}", name, resource_per_alloc=amounts))
            run_seconds[number] = 1 + rng.expovariate(1 / mean_s)
        yield TimedRequest(at, si.ApplicationRequest(new=[new]))
        yield TimedRequest(at, si.AllocationRequest(allocations=asks), run_seconds)


LEAVES = ("root.research.training", "root.research.adhoc", "root.ml", "root.batch")


def queues(*, guaranteed: bool) -> str:
    """Four leaves, with guarantees of two or without any."""
    half, third = ({"resources": {"guaranteed": {"vcore": cores}}} if guaranteed else {} for cores in (200, 150))
    research = {"name": "research", **half, "queues": [{"name": "training", **third}, {"name": "adhoc"}]}
    root = {"name": "root", "submitacl": "*", "queues": [research, {"name": "ml"}, {"name": "batch"}]}
    return yaml.safe_dump({"partitions": [{"name": "default", "queues": [root]}]})


async def compare(compared: Compared) -> Samples:
    """Run the command once; the file is written before."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "ykactor", "simulate", *_files(compared, Path(directory))]
        began = trio.current_time()
        await trio.run_process(command, stdout=subprocess.DEVNULL)
        seconds = trio.current_time() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"both_s": [seconds], "cpu_s": [used.ru_utime + used.ru_stime], "each_mib": [used.ru_maxrss / 2**10]}


def _files(compared: Compared, directory: Path) -> list[str]:
    """The arguments of the command, with the names of its files."""
    scenario, base = directory / "scenario.jsonl", directory / "base.yaml"
    dump_jsonl(compared.scenario(), scenario)
    base.write_text(queues(guaranteed=False))
    return [str(scenario), "--compare", str(base)]
