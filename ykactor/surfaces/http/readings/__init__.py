"""The readings of the routes: what each takes from a partition between two of its turns, as payloads.

Each reading is a function of a ``Look``. It changes nothing, and pauses where it takes long (``core.values.parts``).
"""
