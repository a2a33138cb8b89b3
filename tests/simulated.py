"""Simulations whose facts are kept, to be compared."""

from collections.abc import Callable

from msgspec.structs import asdict

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.sim import simulator
from ykactor.sim.simulator import Outcome
from ykactor.wire.scenario import Scenario


class Simulated(Outcome, kw_only=True):
    """The outcome of a simulation, with its facts."""

    facts: list[Fact]


def simulate(scenario: Scenario, budget: Budget = CYCLE_BUDGET) -> Simulated:
    """Simulate with the plain loop."""
    return _kept(simulator.simulate, scenario, budget)


def simulate_with_actors(scenario: Scenario, budget: Budget = CYCLE_BUDGET) -> Simulated:
    """Simulate with the actors."""
    return _kept(simulator.simulate_with_actors, scenario, budget)


def _kept(run: Callable[..., Outcome], scenario: Scenario, budget: Budget) -> Simulated:
    facts: list[Fact] = []
    outcome = run(scenario, lambda _, fact: facts.append(fact), budget=budget)
    return Simulated(**asdict(outcome), facts=facts)
