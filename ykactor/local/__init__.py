"""A resource manager for one machine: its tasks are processes.

``jobs`` decides what people, messages, ended processes and time mean for the ``book`` of jobs, ``waiting`` what a task waits for;
``store`` keeps them, ``records`` reads what was kept, ``processes`` starts and watches, ``serving`` answers the command line in
the words of ``control``, ``checks`` what it sends, ``exclusive`` keeps a second one away, ``private`` other users, and
``manager`` lets them work together; ``scripts`` are the texts that jobs keep, ``hooks`` the commands for their ends, which
``hooking`` runs. Root can run one for all users (``system``): ``access`` says what each may do, ``users`` who it is, ``quotas``
how much it may keep, and ``shared`` starts its tasks as this user.
What is larger than one machine belongs on Kubernetes or Slurm.
"""
