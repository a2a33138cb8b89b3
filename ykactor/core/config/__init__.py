"""The configured queue tree, as it is in force: queues, properties, limits, access lists, and what differs between two trees.

May import ``values``. The queue file is read elsewhere (``wire/queuefile``). Start reading in ``model.py``.
"""
