"""The queue file, YuniKorn's ``queues.yaml``: converts its text to a configuration, or reports every mistake with its place.

    text -> text.py (nodes) -> manifests.py (a ConfigMap around it) -> fields.py (the types of schema.py) -> warnings.py, rules.py
    -> load.py (configuration)

May import ``core`` and its own modules, nothing else of ``wire``. Start reading in ``load.py``. A large file is loaded by a
separate process; ``frames.py`` encodes the result.
"""

from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, Mistake, checksum_of, load

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]
