"""The owners of the state of a partition: leaf queues with their applications, parent queues, nodes.

Each owner is written by its own task only; it carries out commands, and most of its replies are facts. May import ``messages``,
``config`` and ``values``. Start reading in ``registry.py`` (which owners there are) and ``commands.py``.
"""
