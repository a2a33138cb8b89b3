"""The meter of a reading."""

import time

from ykactor.core.values.parts import PART_MAX, Steps, finished
from ykactor.surfaces.http.load import CpuMeter


def work() -> Steps[str]:
    """Works for 20 ms, and waits for 60 ms, as it does when others have the processor."""
    until_s = time.thread_time() + 0.02
    while time.thread_time() < until_s:
        pass
    yield PART_MAX
    time.sleep(0.06)
    return "done"


def test_only_work_counts() -> None:
    """SE-96: readers wait no longer because other programs are busy; and the result is that of the work."""
    meter, began_s = CpuMeter(), time.thread_time()
    assert finished(meter.measured(work())) == "done"
    assert 0.02 <= meter.seconds <= time.thread_time() - began_s
