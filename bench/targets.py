"""Figures to compare with: our targets, and YuniKorn's figures for the same workload."""

from msgspec import Struct

from bench.runs import Figure

#: Seconds of the calibration loop on the machine where YuniKorn was measured.
YUNIKORN_CALIBRATION_S = 0.49

#: Figures of which higher is better; of all others lower is better.
_RATES = ("allocations_per_second", "others_per_second", "json_share", "msgpack_share")


class Target(Struct, frozen=True):
    """One figure of one case.

    Attributes:
        bound: the value to reach on any machine; None for a figure that is only reported.
        yunikorn: YuniKorn's figure, measured where the calibration loop takes ``YUNIKORN_CALIBRATION_S``.
        always: the worst sample, not the median, must meet the bound.
    """

    bound: float | None = None
    yunikorn: float | None = None
    always: bool = False

    def is_met(self, name: str, figure: Figure) -> bool:
        """True if the figure called ``name`` meets the bound, or there is none."""
        if self.bound is None:
            return True
        if name in _RATES:
            return (figure.min if self.always else figure.median) >= self.bound
        return (figure.max if self.always else figure.median) <= self.bound


#: YuniKorn places 4,450 to 4,700 asks per second in its own benchmark; we compare with the better figure.
_OWN = Target(30_000, 4_700)

_TARGETS: dict[tuple[str, str], Target] = {
    ("own-500", "allocations_per_second"): _OWN,
    ("own-1000", "allocations_per_second"): _OWN,
    ("own-2000", "allocations_per_second"): _OWN,
    ("own-5000", "allocations_per_second"): _OWN,
    ("one-app-50k", "allocations_per_second"): Target(25_000, 437),
    ("apps-1000-fifo", "allocations_per_second"): Target(25_000, 10_200),
    ("apps-1000-fair", "allocations_per_second"): Target(25_000, 8_000),
    ("full-cluster", "answer_ms"): Target(5.0, 7.7),
    ("full-cluster", "first_ms"): Target(5.0, 7.7),
    ("full-cluster", "all_ms"): Target(5.0),
    ("add-one-ask", "ms"): Target(1.0),
    ("loop-lag", "max_ms"): Target(10.0, always=True),
    ("reload-5000", "load_s"): Target(2.0),
    ("reload-5000", "reload_s"): Target(2.0),
    ("reload-5000", "max_ms"): Target(10.0, always=True),
    ("preemption", "decision_ms"): Target(20.0),
    ("no-victims", "decision_ms"): Target(20.0),
    **{("explain", f"{name}_ms"): Target(50.0) for name in ("ask", "queue", "node")},
    ("explain", "step_max_ms"): Target(5.0),
    ("explain-changes", "changes_s"): Target(0.5),
    ("replica-lag", "paced_p50_ms"): Target(5.0),
    ("replica-lag", "bulk_p99_ms"): Target(250.0),
    ("replica-lag", "read_max_ms"): Target(250.0),
    ("replica-readers", "read_ratio"): Target(1.25),
    ("standby", "p50_ratio"): Target(2.2),
    ("take-over", "planned_ack_ms"): Target(1000.0),
    ("replica", "stream_ratio"): Target(1.1),
    ("replica", "replica_ratio"): Target(1.1),
    ("replica", "bytes"): Target(150.0),
    ("replica", "replica_share"): Target(0.7),
    ("followers", "ratio_100"): Target(1.5),
    ("followers", "ratio_1000"): Target(4.0),
    ("followers", "incomplete_100"): Target(0.0, always=True),
    ("followers", "incomplete_1000"): Target(0.0, always=True),
    ("followers-plain", "incomplete_100"): Target(0.0, always=True),
    ("followers-plain", "incomplete_1000"): Target(0.0, always=True),
    ("rest", "cost_percent"): Target(10.0),
    ("rest-whole", "cost_ratio"): Target(1.25),
    ("rest", "refused"): Target(0.0, always=True),
    ("socket-latency", "p50_ms"): Target(2.0),
    ("socket-latency", "p99_ms"): Target(10.0),
    ("socket-bulk", "json_share"): Target(0.6),
    ("socket-bulk", "msgpack_share"): Target(0.6),
    ("small-messages", "ratio_1"): Target(2.8),
    ("small-messages", "ratio_10"): Target(1.3),
    ("small-messages", "ratio_100"): Target(1.0),
    ("small-messages", "ratio_paced"): Target(8.0),
    ("small-messages", "p50_ms"): Target(2.5),
    ("small-messages", "p99_ms"): Target(8.0),
    ("idle", "cpu_s"): Target(0.01),
    **{
        (f"hold-{name}", "max_ms"): Target(10.0, always=True)
        for name in ("snapshot", "release", "quota", "gang", "shapes", "queues")
    },
    ("cost-ratio", "ratio"): Target(1.5),
    ("kubernetes-bind", "ratio"): Target(2.0),
    ("kubernetes-bind", "told_ratio"): Target(3.5),
    ("kubernetes-conditions", "ratio"): Target(1.5),
    ("kubernetes-report", "ratio"): Target(4.0),
    ("kubernetes-heartbeat", "ratio"): Target(1.5),
    ("kubernetes-answers", "ratio"): Target(2.0, always=True),
    ("kubernetes-takeover", "ratio"): Target(1.3, always=True),
    ("kubernetes-stalled", "grown_mib"): Target(20.0, always=True),
    ("compare-days", "both_s"): Target(20.0),
    ("compare-days", "each_mib"): Target(200.0),
    ("compare-year", "both_s"): Target(90.0),
    ("compare-year", "each_mib"): Target(200.0),
    ("memory", "running_mib"): Target(280.0),
    ("memory", "waiting_mib"): Target(100.0),
    ("page", "shown_ms"): Target(1000),
    ("page", "opened_step_ms"): Target(50),
    ("page", "step_ms"): Target(50),
    ("page", "heap_ratio"): Target(1.1),
}


def target(case: str, figure: str) -> Target:
    """The target of a figure; an empty target if it has none."""
    return _TARGETS.get((case, figure), Target())


def yunikorn_here(figure: str, there: float, calibration: float) -> float:
    """YuniKorn's figure scaled to a machine where the calibration loop takes ``calibration`` seconds."""
    speed = YUNIKORN_CALIBRATION_S / calibration
    return there * speed if figure in _RATES else there / speed


def times_better(figure: str, ours: float, theirs: float) -> float:
    """The ratio of two figures; above 1 if ours is better."""
    return ours / theirs if figure in _RATES else theirs / ours
