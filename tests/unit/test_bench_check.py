"""``make bench-check``: what fails it, and what a busy machine may do without failing it."""

import pytest
import yaml
from click.testing import CliRunner

from bench import check
from bench.cases import CASES
from bench.check import AGAIN_MAX, CHECKED, FACTOR_MAX, Lowest, mistakes, too_expensive

RANGES = {"a": 100.0, "b": 10.0}


def lowest_of(figures: dict[str, list[float]], loops_s: list[float]) -> Lowest:
    """Measurements that give these values, one after the other."""
    of_case = {name: iter(values) for name, values in figures.items()}
    of_loop = iter(loops_s)
    return Lowest(lambda name: next(of_case[name]), lambda: next(of_loop))


def test_cost_is_the_share_of_the_calibration_loop() -> None:
    """A machine twice as slow measures twice as much for both."""
    fast, slow = lowest_of({"a": [50.0]}, [0.5]), lowest_of({"a": [100.0]}, [1.0])
    fast.measure(["a"], 1)
    slow.measure(["a"], 1)
    assert fast.costs() == slow.costs() == {"a": 100.0}


def test_smallest_of_all_rounds_counts() -> None:
    """A busy machine makes a case look expensive, or the loop slow and thus the case cheap: neither changes anything."""
    lowest = lowest_of({"a": [90.0, 60.0, 80.0]}, [1.0, 1.0, 3.0])
    lowest.measure(["a"], 3)
    assert lowest.costs() == {"a": 60.0}


@pytest.mark.parametrize(("factor", "is_too_expensive"), [(0.5, False), (FACTOR_MAX, False), (FACTOR_MAX + 0.01, True)])
def test_a_case_may_cost_a_quarter_more(factor: float, is_too_expensive: bool) -> None:
    """Only the case beyond its bound is named; to be cheaper is no mistake."""
    costs = {"a": 100.0 * factor, "b": 10.0}
    assert too_expensive(costs, RANGES) == (["a"] if is_too_expensive else [])
    assert [mistake.partition(":")[0] for mistake in mistakes(costs, RANGES)] == (["a"] if is_too_expensive else [])


def test_expensive_cases_are_measured_again() -> None:
    """Only they, and only until they are within the bound: a busy machine does not fail the check."""
    lowest = lowest_of({"a": [150.0, 140.0, 110.0], "b": [10.0]}, [1.0, 1.0, 1.0])
    lowest.measure(RANGES, 1)
    lowest.measure_again(RANGES)
    assert lowest.costs() == {"a": 110.0, "b": 10.0}


def test_a_case_that_stays_expensive_fails() -> None:
    """After the last round the cost is what it is."""
    lowest = lowest_of({"a": [200.0] * (1 + AGAIN_MAX), "b": [10.0]}, [1.0] * (1 + AGAIN_MAX))
    lowest.measure(RANGES, 1)
    lowest.measure_again(RANGES)
    assert mistakes(lowest.costs(), RANGES) == ["a: found 200, expected at most 125, 1.25 times its range"]


def test_every_case_has_a_range() -> None:
    """A case that was added or removed is a mistake until the file is written again."""
    (mistake,) = mistakes({"a": 1.0, "c": 1.0}, RANGES)
    assert "(b, c)" in mistake


def test_file_has_the_cases_that_are_checked() -> None:
    """And all of them exist."""
    assert yaml.safe_load(check.RANGES.read_text()).keys() == set(CHECKED) <= CASES.keys()


def test_rewrite_makes_the_check_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """The file that one command writes is what the other compares with: exit code 0, and 1 when costs have risen."""
    cost = 20.0
    monkeypatch.setattr(check, "RANGES", tmp_path / "ranges.yaml")  # type: ignore[operator]
    monkeypatch.setattr(check, "in_one_run", lambda name: cost)
    monkeypatch.setattr(check, "calibrate", lambda: 0.5)
    assert CliRunner().invoke(check.main, ["--rewrite"]).exit_code == 0
    assert CliRunner().invoke(check.main, []).exit_code == 0
    cost = 26.0
    answer = CliRunner().invoke(check.main, [])
    assert answer.exit_code == 1
    assert "own-1000: found 52, expected at most 50" in answer.output
