"""Scenario files: a recorded session of a resource manager, each message with the virtual second at which it was sent.

    bytes -> load.py (values with places) -> model.py (the scenario); mistakes.py finds every mistake of a value

``recording.py`` has the lines that only recordings have. Start reading in ``load.py``. What a file may say is in
``sim/README.md``.
"""

from ykactor.wire.scenario.load import ScenarioError, load
from ykactor.wire.scenario.model import Scenario, TimedRequest, dump_jsonl

__all__ = ["Scenario", "ScenarioError", "TimedRequest", "dump_jsonl", "load"]
