"""The second resource manager: an adapter between a Kubernetes API server and the daemon, on top of ``client``.

Pods with ``schedulerName: ykactor`` run where the scheduler decides. Pure translations are in ``quantities``, ``pods``, ``nodes``
and ``constraints``; ``state`` is the only place that decides what the daemon and the API server are told. Start reading there.
"""
