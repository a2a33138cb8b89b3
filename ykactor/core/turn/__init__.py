"""One turn of a partition, phase by phase: ingest, observe, plan, commit, settle, publish.

``turn()`` says what is done in which order; the partition's task and the oracle both drive it and carry the phases out.
May import every package below it. Start reading in ``turn.py``.
"""
