"""Queue files of several partitions."""

import json
from typing import Any

from world import queue

from ykactor.core.config.model import SchedulerConfig
from ykactor.wire import queuefile


def several(**partitions: list[dict[str, Any]]) -> str:
    """A queue file with these partitions, each with the queues below its root, which is open to everybody."""
    entries = [{"name": name, "queues": [queue("root", *queues, submitacl="*")]} for name, queues in partitions.items()]
    return json.dumps({"partitions": entries})


def several_loaded(**partitions: list[dict[str, Any]]) -> SchedulerConfig:
    """The configuration of ``several``."""
    return queuefile.load(several(**partitions))
