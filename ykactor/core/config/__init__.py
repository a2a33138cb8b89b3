"""The configuration in force: queues, properties, limits and access lists, and the differences between two configurations.

May import ``values``. The queue file is read elsewhere (``wire/queuefile``). Start reading in ``model.py``.
"""
