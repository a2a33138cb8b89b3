"""The owners of the truth: applications in their leaf, leaf and parent queues, nodes. Each is written by its own task only.

An owner carries out commands and returns facts. May import ``messages``, ``config`` and ``values``. Start reading in
``registry.py`` (who exists) and ``commands.py``.
"""
