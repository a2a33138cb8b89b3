"""The queue file, YuniKorn's ``queues.yaml``: text flows in, a configuration flows out, or every mistake with its place.

    text -> text.py (nodes) -> fields.py (the types of schema.py) -> warnings.py, rules.py -> build.py (configuration)

May import ``core`` and its own modules, nothing else of ``wire``. Start reading in ``load.py``; ``frames.py`` hands large files
to a process of its own.
"""

from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, Mistake, checksum_of, load

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]
