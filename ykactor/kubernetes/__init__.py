"""The second resource manager: an adapter between a Kubernetes API server and the daemon, on top of ``client``.

Pods with ``schedulerName: ykactor`` run where the scheduler decides. Pure translations are in ``quantities``, ``pods``, ``nodes``
and ``constraints``. ``state`` decides what the daemon and the API server are told: start reading there. Around it are the tasks
that talk to both: ``reflector``, ``leader``, ``effects`` and ``adapter``.
"""
