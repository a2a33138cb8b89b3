"""The scheduler interface on the wire: its messages, their encodings, and what they mean in the core's terms.

May import ``core`` and its own modules, nothing else of ``wire``. Start reading in ``messages.py``, then ``requests.py`` (in) and
``responses.py``, ``events.py`` (out).
"""
