"""The line of a command in the list of commands, where the first sentence of its help is longer than a line."""

SUMMARIES = {
    # ---- running jobs
    "run": "Run COMMAND on this machine as soon as its queue has room.",
    "submit-script": "Submit a script with its options in #YKACTOR lines.",
    "jobs": "List the jobs of this machine, their tasks and attempts.",
    "logs": "Print what the tasks of JOB have written.",
    "requeue": "Run the tasks of jobs again.",
    "local": "Run jobs of ykactor run on this machine.",
    # ---- looking
    "queues": "List the queues with usage, guarantee, quota and demand.",
    "apps": "List the applications with their states and usage.",
    "app": "Print an application: what runs, what waits and why.",
    "asks": "List the pending asks with the reason why each waits.",
    "nodes": "List the nodes with what is used and free.",
    "node": "Print a node: its state, resources and tasks.",
    "users": "List what users and groups use and may use.",
    "partitions": "List the partitions with what they have and use.",
    "top": "Show queues and what waits on the whole terminal.",
    "events": "List the newest events.",
    "stats": "Print numbers about the daemon.",
    "health": "Check whether the daemon serves and its state is consistent.",
    "usage": "Print what was used, waited for and lost.",
    # ---- explaining
    "explain": "Explain why an ask waits, or what a queue or node lacks.",
    "priorities": "List what the priorities of pending asks are made of.",
    "preemptions": "List the preemptions with what came of them.",
    "what-if": "Run the present state with and without a change.",
    # ---- operating
    "drain": "Drain nodes: nothing new is placed on them.",
    "hold": "Hold applications and queues: they get nothing new.",
    "move": "Move applications to another leaf queue.",
    "take-over": "Let a standby take over.",
    "audit": "Print who has administered a daemon, and who was refused.",
    # ---- configuration
    "config": "Print, plan, apply or roll back the queue configuration.",
    "test": "Run cases: what a queue configuration is expected to do.",
    "check-config": "Check queue configurations.",
    "access": "Check an access file.",
    "token": "Make, list and revoke tokens.",
    "samples": "Write sample configurations, manifests and units to DIR.",
    # ---- simulating
    "convert": "Convert a workload to a scenario, or a queue file.",
    "record": "Record what happened to a daemon in a time.",
    "replay": "Run recorded turns again and compare the decisions.",
    # ---- serving
    "replica": "Follow a daemon, check its decisions and answer readers.",
    "journal": "Look at, check, export, compact, copy or restore a journal.",
    "kubernetes": "Run the pods of a Kubernetes cluster.",
    "demo": "Run a daemon with some jobs and show what happens.",
    # ---- help
    "docs": "Print a chapter of the handbook, or what it says about WORD.",
    "help": "Print the help of a command.",
    "completion": "Print the completion for bash, zsh or fish.",
}
