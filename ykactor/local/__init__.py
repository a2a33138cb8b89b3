"""A resource manager for one machine: its tasks are processes.

``jobs`` decides what a message or an ended process means, ``store`` keeps it, ``processes`` starts and watches, ``serving``
answers the command line in the words of ``control``, ``checks`` what it sends, ``exclusive`` keeps a second one away,
``private`` other users, and ``manager`` lets them work together. Root can run one for all users (``system``): ``access`` says
what each may do, ``users`` who it is, ``quotas`` how much it may keep, and ``shared`` starts its tasks as this user.
What is larger than one machine belongs on Kubernetes or Slurm.
"""
