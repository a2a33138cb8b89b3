"""The scheduler interface (SI) on the wire: its messages, their encodings, and the conversion from and to the core's structs.

May import ``core`` and its own modules, nothing else of ``wire``. Start reading in ``messages/``, then ``requests.py`` (in) and
``responses.py``, ``events.py`` (out). ``codec.py`` is between bytes and messages, with ``division.py`` for large ones.
"""
