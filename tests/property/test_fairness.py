"""``sim/entitlement.py`` and ``sim/fairness.py``: the fairness account, in exact integers, beside a naive one."""

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import pytest
from generate import generate
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import QueueLimit
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.resources import Resource
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.entitlement import dominant_share as share_of
from ykactor.sim.entitlement import entitlements, pace_of
from ykactor.sim.fairness import PARTS, FairnessAccount, QueueAccount
from ykactor.sim.simulator import Record, run_directly, simulate, to_ns
from ykactor.sim.tallies import PartitionTallies, Tallies
from ykactor.wire import queuefile

TYPES = ("vcore", "memory", "gpu")
ROOT = QueuePath("root")


# ---- one pool, divided among siblings


class Claim:
    """A sibling with its guarantee."""

    def __init__(self, demand: Resource, guaranteed: Resource, capacity: Resource) -> None:
        self.demand = {name: amount for name, amount in demand.items() if amount}
        self.weight = share_of(guaranteed, capacity)
        self.pace = pace_of(self.demand, self.weight, capacity)
        self.guaranteed = guaranteed


AMOUNTS = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 60), max_size=3)
SIBLINGS = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5)


def naive(pool: Resource, claims: list[Claim], capacity: Resource) -> list[dict[str, Fraction]]:
    """The rule as it is written, with fractions: the level rises from one event to the next, type by type."""
    found: list[dict[str, Fraction]] = [{} for _ in claims]
    for name in TYPES:
        left = Fraction(pool.get(name, 0))
        for has_guarantee in (True, False):
            rates = {
                index: Fraction(claim.demand[name]) * weight(claim.guaranteed, capacity) / dominant(claim.demand, capacity)
                for index, claim in enumerate(claims)
                if claim.demand.get(name) and (weight(claim.guaranteed, capacity, 0) > 0) is has_guarantee
                if dominant(claim.demand, capacity)
            }
            rising = dict(rates)
            given = dict.fromkeys(rates, Fraction(0))
            while rising and left:
                step = min((claims[index].demand[name] - given[index]) / rate for index, rate in rising.items())
                step = min(step, left / sum(rising.values()))
                for index, rate in rising.items():
                    given[index] += rate * step
                left -= step * sum(rising.values())
                rising = {index: rate for index, rate in rising.items() if given[index] < claims[index].demand[name]}
            for index, amount in given.items():
                found[index][name] = amount
    return found


def dominant(amounts: Resource, capacity: Resource) -> Fraction:
    return max((Fraction(amount, capacity[name]) for name, amount in amounts.items() if capacity.get(name)), default=Fraction(0))


def weight(guaranteed: Resource, capacity: Resource, otherwise: int = 1) -> Fraction:
    return dominant(guaranteed, capacity) or Fraction(otherwise)


@given(AMOUNTS, SIBLINGS)
def test_siblings_share_a_pool(pool: Resource, siblings: list[tuple[Resource, Resource]]) -> None:
    """A sibling gets at most what it demands; all together what there is, or all that they demand; in proportion to guarantees.

    Division leaves less than one unit for each sibling, of which a unit of these is a millionth.
    """
    capacity = {name: amount * 2 for name, amount in pool.items()}
    scaled = [Claim({n: a * PARTS for n, a in demand.items()}, guaranteed, capacity) for demand, guaranteed in siblings]
    claims = [claim for claim in scaled if dominant(claim.demand, capacity) or not claim.demand]
    found = entitlements({name: amount * PARTS for name, amount in pool.items()}, claims)
    expected = naive({name: amount * PARTS for name, amount in pool.items()}, claims, capacity)
    for name in TYPES:
        demanded = sum(claim.demand.get(name, 0) for claim in claims)
        assert sum(given.get(name, 0) for given in found) == min(pool.get(name, 0) * PARTS, demanded)
    for claim, amounts, exact in zip(claims, found, expected, strict=True):
        assert all(0 < amount <= claim.demand[name] for name, amount in amounts.items())
        assert all(abs(amounts.get(name, 0) - exact.get(name, 0)) <= len(claims) for name in TYPES)


def test_without_guarantees_dominant_shares_are_equal() -> None:
    """The example of dominant resource fairness: 9 cores and 18 GiB, tasks of 1 core and 4 GiB, and of 3 cores and 1 GiB."""
    pool = {"vcore": 9 * PARTS, "memory": 18 * PARTS}
    first = Claim({"vcore": 100 * PARTS, "memory": 400 * PARTS}, {}, pool)
    second = Claim({"vcore": 300 * PARTS, "memory": 100 * PARTS}, {}, pool)
    a, b = entitlements(pool, [first, second])
    assert [round(given["vcore"] / PARTS, 5) for given in (a, b)] == [3, 6]
    assert a["memory"] + b["memory"] == 18 * PARTS


def test_siblings_without_a_guarantee_get_what_others_leave() -> None:
    """Guarantees 3 and 1 share 8 as 6 and 2; a third queue gets something only when both have all that they demand."""
    pool = {"vcore": 8 * PARTS}
    claims = [Claim({"vcore": 10 * PARTS}, {"vcore": amount}, pool) for amount in (3, 1, 0)]
    assert [round(given.get("vcore", 0) / PARTS, 5) for given in entitlements(pool, claims)] == [6, 2, 0]
    claims[0] = Claim({"vcore": 1 * PARTS}, {"vcore": 3}, pool)
    claims[1] = Claim({"vcore": 2 * PARTS}, {"vcore": 1}, pool)
    assert [given["vcore"] for given in entitlements(pool, claims)] == [1 * PARTS, 2 * PARTS, 5 * PARTS]


# ---- a tree over time


def config_of(path: str, children: tuple[QueueConfig, ...] = (), **limits: Resource) -> QueueConfig:
    return QueueConfig(QueuePath(path), bool(children), children=children, **limits)  # type: ignore[arg-type]


def check_present(account: FairnessAccount) -> None:
    """Demand within max from below, e <= d, e <= max, and per type: siblings have all of their parent's, or all they demand."""
    queues = account.queues.values()
    for queue in queues:
        below = [child for child in queues if child.parent is queue]
        demand = Counter(queue.wanted)
        for child in below:
            demand.update(child.demand)
        within = {name: min(amount, (queue.max or {}).get(name, amount)) for name, amount in demand.items()}
        assert queue.demand == {name: amount for name, amount in within.items() if amount > 0}
        for name, amount in queue.entitled.items():
            assert 0 < amount <= queue.demand[name] <= (queue.max or {}).get(name, amount + queue.demand[name])
        for name in {name for child in below for name in child.demand} if below else ():
            entitled, demanded = (sum(getattr(c, kind).get(name, 0) for c in below) for kind in ("entitled", "demand"))
            assert entitled == min(queue.entitled.get(name, 0), demanded)
    root = account.queues[ROOT]
    assert root.entitled == {
        name: least for name, amount in root.demand.items() if (least := min(amount, account.capacity.get(name, 0)))
    }


class Areas:
    """The values of the accounts: sums of (e - u) dt of all spans, taken from outside."""

    def __init__(self) -> None:
        self.debt: Counter[tuple[QueuePath, str]] = Counter()
        self.credit: Counter[tuple[QueuePath, str]] = Counter()

    def add(self, queue: QueueAccount, span_ns: int) -> None:
        for name in queue.entitled.keys() | queue.used.keys():
            gap = (queue.entitled.get(name, 0) - queue.used.get(name, 0)) * span_ns
            (self.debt if gap > 0 else self.credit)[queue.path, name] += abs(gap)

    def check(self, account: FairnessAccount) -> None:
        for queue in account:
            for name in TYPES:
                debt, credit = queue.debt.get(name, 0), queue.credit.get(name, 0)
                assert isinstance(debt, int)
                assert isinstance(credit, int)
                assert (debt, credit) == (self.debt[queue.path, name], self.credit[queue.path, name])


LEAVES = [QueuePath(f"root.{name}") for name in ("a.x", "a.y", "b", "c.z.w", "c.z.v")]


def steps(rng: random.Random) -> Iterator[tuple[int, QueuePath, str, Resource]]:
    """Moments, leaves and what changes there; several at one time, too."""
    at_ns = 0
    for _ in range(60):
        at_ns += rng.choice([0, 0, 1, 7, 10**9])
        amounts = {name: rng.randrange(12) for name in rng.sample(TYPES[: rng.choice([1, 3])], 1)}
        yield at_ns, rng.choice(LEAVES), rng.choice(["want", "use", "end", "max", "guaranteed", "capacity", "remove"]), amounts


@pytest.mark.parametrize("seed", seeds(200))
def test_the_account_of_a_tree(seed: int) -> None:
    """The same at every moment of a random history, also when limits and the cluster change."""
    rng = random.Random(seed)
    account, areas = FairnessAccount(0, 0, 10**10, config_of("root", guaranteed={"vcore": 3})), Areas()
    used: dict[QueuePath, list[Resource]] = {leaf: [] for leaf in LEAVES}
    now_ns = 0
    for at_ns, leaf, kind, amounts in steps(rng):
        if at_ns > now_ns:
            account.advance(at_ns)
            check_present(account)
            for queue in account:
                areas.add(queue, at_ns - now_ns)
            now_ns = at_ns
        if kind in ("want", "use"):
            account.want(at_ns, leaf, amounts)
        if kind == "use":
            account.use(at_ns, leaf, amounts)
            used[leaf].append(amounts)
        if kind == "end" and used[leaf]:
            ended = used[leaf].pop()
            account.want(at_ns, leaf, ended, -1)
            account.use(at_ns, leaf, ended, -1)
        if kind in ("max", "guaranteed"):
            account.set_limit(at_ns, QueuePath(leaf.rpartition(".")[0]), QueueLimit(kind), rng.choice([None, amounts]))
            account.set_limit(at_ns, leaf, QueueLimit(kind), rng.choice([None, amounts]))
        if kind == "capacity":
            account.set_limit(at_ns, ROOT, QueueLimit.MAX, dict.fromkeys(TYPES, rng.randrange(40)))
        if kind == "remove" and not used[leaf] and not account.queues.get(leaf, account.queues[ROOT]).wanted:
            account.remove(at_ns, leaf)
    account.finish(now_ns)
    areas.check(account)


# ---- a whole run


@pytest.mark.parametrize("seed", seeds(80))
def test_the_account_of_a_run(seed: int) -> None:
    """The facts of a run tell what the ledger has: of each queue its usage, pending amounts and max, at each instant.

    A real ask that is about to replace a placeholder is not pending in the ledger, but has not been placed either.
    """
    scenario = generate(seed, reloads=seed % 3)
    config = queuefile.load(scenario.config).partitions[0]
    account = FairnessAccount(0, 0, to_ns(scenario.until), config.root)
    tallies = PartitionTallies(PartitionName("default"), Tallies(), account)

    def observe(_: PartitionName, fact: Fact) -> None:
        tallies.observe(fact)

    record = Record(observe)
    partition = DirectPartition(config, CYCLE_BUDGET, partial(record.add, config.name), confirms=True)
    record.is_open = True
    direct = DirectPartitions(lambda config, now_ns: partition, {config.name: partition})

    def check(at_ns: int) -> None:
        record.flush()
        account.advance(at_ns + 1)
        check_present(account)
        for path, queue in partition.scheduler.state.tree.nodes.items():
            found = account.queues.get(path)
            assert parts(queue.allocated) == ({} if found is None else found.used), path
            wanted = Counter[str]()
            for below in account:
                if path in [above.path for above in below.path_up]:
                    wanted.update(below.wanted)
            told = Counter(parts(queue.allocated))
            told.update(parts(queue.pending))
            assert all(wanted[name] >= amount for name, amount in told.items())
            assert path != ROOT or account.capacity == parts(queue.max or {})
            if found is not None and path != ROOT:
                assert (found.max or {}) == parts(queue.max or {})
                assert found.guaranteed == {n: a for n, a in parts(queue.config.guaranteed or {}).items() if a}

    run_directly(scenario, direct, record, after=check)


def parts(resource: Resource) -> Resource:
    return {name: amount * PARTS for name, amount in resource.items()}


def test_the_same_run_has_the_same_account() -> None:
    """Twice the same scenario: equal accounts, to the last unit."""
    scenario = generate(3, reloads=1)
    found = []
    for _ in range(2):
        account = FairnessAccount(0, 0, to_ns(scenario.until), queuefile.load(scenario.config).partitions[0].root)
        tallies = PartitionTallies(PartitionName("default"), Tallies(), account)
        end_ns = simulate(scenario, lambda _, fact, tallies=tallies: tallies.observe(fact)).end_ns
        tallies.finish(end_ns, {})
        found.append({queue.path: (queue.debt, queue.credit, queue.use) for queue in account})
    assert found[0] == found[1]
    assert any(debt for debt, _, _ in found[0].values())
