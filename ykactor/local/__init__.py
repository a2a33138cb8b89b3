"""A resource manager for one machine: its tasks are processes.

``jobs`` decides what a message or an ended process means, ``store`` keeps it, ``processes`` starts and watches, ``serving``
answers the command line in the words of ``control``, ``exclusive`` keeps a second one away, ``private`` other users, and
``manager`` lets them work together.
What is larger than one machine belongs on Kubernetes or Slurm.
"""
