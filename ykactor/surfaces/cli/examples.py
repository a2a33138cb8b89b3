"""Two examples for each command, which its help and the manual page end with."""

from __future__ import annotations

import click

from ykactor.surfaces.cli.summaries import SUMMARIES
from ykactor.surfaces.cli.urls import ConnectionOption

#: By the words of a command.
EXAMPLES = {
    # ---- running jobs
    "run": ("ykactor run -- echo hello", "ykactor run --queue root.batch --vcore 2 --memory 4Gi --array 1-10 -- ./step.sh"),
    "submit-script": ("ykactor submit-script sim.sh", "ykactor submit-script --queue root.batch --time 2h sim.sh input.dat"),
    "jobs": ("ykactor jobs --state Running,Waiting", "ykactor jobs --attempts --since 1d --sort -ran -o csv"),
    "logs": ("ykactor logs --tail 20 job-3", "ykactor logs -f job-3.4"),
    "wait": ("ykactor wait job-3", "ykactor wait job-3.1 job-3.2"),
    "requeue": ("ykactor requeue job-3.4", "ykactor requeue --failed job-3"),
    "local": ("ykactor local --resource vcore=4 --resource gpu=2", "ykactor local --system --url unix:/run/ykactor/ws.sock"),
    "local install": ("ykactor local install", "ykactor local install > install.sh"),
    # ---- looking
    "queues": ("ykactor queues", "ykactor queues --queue root.batch -o wide"),
    "apps": ("ykactor apps --user bob", "ykactor apps --since 1d"),
    "app": ("ykactor app job-3", "ykactor app job-3 -o json"),
    "asks": ("ykactor asks", "ykactor asks --queue root.batch --sort age --watch"),
    "nodes": ("ykactor nodes --sort use", "ykactor nodes --state drained -o name"),
    "node": ("ykactor node n1", "ykactor node n1 -o json"),
    "users": ("ykactor users", "ykactor users --user bob"),
    "partitions": ("ykactor partitions", "ykactor partitions -o json"),
    "top": ("ykactor top", "ykactor top --url ws://10.0.0.7:9081"),
    "events": ("ykactor events --since 10m", "ykactor events --app job-3 --kind REQUEST"),
    "follow": ("ykactor follow --kind NODE_ALLOC", "ykactor follow --from snapshot -o json"),
    "stats": ("ykactor stats", "ykactor stats -o json"),
    "health": ("ykactor health", "ykactor health -o json"),
    "usage": ("ykactor usage --by queue,user --since 7d", "ykactor usage --by application -o csv"),
    # ---- explaining
    "explain": ("ykactor explain job-3.4", "ykactor explain root.batch"),
    "priorities": ("ykactor priorities", "ykactor priorities --queue root.batch"),
    "story": ("ykactor story job-3", "ykactor story job-3 --state-dir /var/lib/ykactor"),
    "preemptions": ("ykactor preemptions --since 1d", "ykactor preemptions --queue root.batch"),
    "what-if": ("ykactor what-if --config new.yaml", "ykactor what-if more-nodes.yaml --seconds 600"),
    "rule": ("ykactor rule PE-25", "ykactor rule --list"),
    # ---- operating
    "drain": ("ykactor drain n1", "ykactor drain n1 n2"),
    "undrain": ("ykactor undrain n1", "ykactor undrain n1 n2"),
    "cancel": ("ykactor cancel job-3", "ykactor apps --user bob -o name | xargs ykactor cancel --whole"),
    "hold": ("ykactor hold job-3", "ykactor hold root.batch"),
    "release": ("ykactor release job-3", "ykactor release root.batch"),
    "priority": ("ykactor priority job-3 10", "ykactor priority job-3.4 -- -5"),
    "move": ("ykactor move job-3 root.dev", "ykactor move job-3 job-4 root.dev"),
    "rm release": ("ykactor rm release local-host1", "ykactor rm release local-host1 --forget-epoch"),
    "take-over": (
        "ykactor take-over --state-dir /var/lib/ykactor",
        "ykactor take-over --state-dir /var/lib/ykactor --hand-over",
    ),
    "audit": ("ykactor audit --state-dir /var/lib/ykactor --since 7d", "ykactor audit --state-dir /var/lib/ykactor --who bob"),
    # ---- configuration
    "config": ("ykactor config", "ykactor config -o name"),
    "config plan": ("ykactor config plan new.yaml", "ykactor config plan new.yaml --fail-on never,drain"),
    "config apply": ("ykactor config apply new.yaml", "ykactor config apply new.yaml --confirm-within 5m"),
    "config confirm": ("ykactor config confirm", "ykactor config confirm --if-checksum 104D66EC"),
    "config rollback": ("ykactor config rollback", "ykactor config rollback --url ws://10.0.0.7:9081"),
    "check-config": ("ykactor check-config queues.yaml", "ykactor check-config --schema > queues.schema.json"),
    "test": ("ykactor test config/cases.yaml", "ykactor test --junit report.xml cases.yaml"),
    "access check": ("ykactor access check access.yaml", "ykactor access check access.yaml --as bob"),
    "token create": (
        "ykactor token create bob --access access.yaml",
        "ykactor token create bob --access access.yaml -o bob.token",
    ),
    "token list": ("ykactor token list --access access.yaml", "ykactor token list --access access.yaml | grep bob"),
    "token revoke": ("ykactor token revoke --access access.yaml 3f6c", "ykactor token revoke 3f6c --access access.yaml"),
    "samples": ("ykactor samples samples", "ykactor samples /etc/ykactor"),
    # ---- simulating
    "simulate": ("ykactor simulate scenario.yaml", "ykactor simulate scenario.yaml --config new.yaml --compare old.yaml"),
    "submit": ("ykactor submit scenario.yaml --speed 1", "ykactor submit scenario.yaml --dry-run"),
    "convert swf": (
        "ykactor convert swf trace.swf > scenario.jsonl",
        "ykactor convert swf trace.swf --nodes 64 -o scenario.jsonl",
    ),
    "convert openb": (
        "ykactor convert openb nodes.csv tasks.csv > scenario.jsonl",
        "ykactor convert openb nodes.csv tasks.csv -o scenario.jsonl",
    ),
    "convert sacct": (
        "ykactor convert sacct sacct.txt --nodes 64 --node-processors 32 > scenario.jsonl",
        "ykactor convert sacct sacct.txt --nodes 8 --node-processors 64 --node-gpus 8 --queue-by account -o scenario.jsonl",
    ),
    "convert configmap": (
        "ykactor convert configmap queues.yaml --namespace ykactor",
        "ykactor convert configmap queues.yaml | kubectl apply -f -",
    ),
    "convert sbatch": ("ykactor convert sbatch job.sh > job.yk.sh", "ykactor convert sbatch job.sh | ykactor submit-script -"),
    "record": (
        "ykactor record /var/lib/ykactor --from 2h -o recording.jsonl",
        "ykactor record /var/lib/ykactor --anonymise -o recording.jsonl",
    ),
    "replay": ("ykactor replay /var/lib/ykactor", "ykactor replay recording.jsonl"),
    # ---- serving
    "serve": (
        "ykactor serve --config queues.yaml --state-dir /var/lib/ykactor",
        "ykactor serve --config queues.yaml --ws unix:/run/ykactor/socket --http none",
    ),
    "replica": ("ykactor replica --url ws://10.0.0.7:9081", "ykactor replica --url ws://10.0.0.7:9081 --http 127.0.0.1:9090"),
    "journal info": ("ykactor journal info /var/lib/ykactor", "ykactor journal info /var/lib/ykactor -o json"),
    "journal verify": ("ykactor journal verify /var/lib/ykactor", "ykactor journal verify backup.ykactor"),
    "journal export": ("ykactor journal export /var/lib/ykactor", "ykactor journal export --records /var/lib/ykactor"),
    "journal compact": ("ykactor journal compact /var/lib/ykactor", "ykactor journal compact state"),
    "journal backup": ("ykactor journal backup /var/lib/ykactor backup.ykactor", "ykactor journal backup state backup.ykactor"),
    "journal restore": (
        "ykactor journal restore backup.ykactor /var/lib/ykactor",
        "ykactor journal restore backup.ykactor state",
    ),
    "kubernetes": ("ykactor kubernetes --kubeconfig config.yaml", "ykactor kubernetes --listen 127.0.0.1:9082"),
    "kubernetes check": ("ykactor kubernetes check", "ykactor kubernetes check --kubeconfig config.yaml"),
    "kubernetes lease": ("ykactor kubernetes lease ykactor", "ykactor kubernetes lease ykactor --namespace default"),
    "demo": ("ykactor demo", "ykactor demo --state-dir state"),
    # ---- help
    "docs": ("ykactor docs jobs", "ykactor docs preemption delay"),
    "help": ("ykactor help run", "ykactor help connection"),
    "completion": (
        "ykactor completion bash > ~/.local/share/bash-completion/completions/ykactor",
        "ykactor completion fish | source",
    ),
    "man": ("ykactor man | man -l -", "ykactor man > /usr/local/share/man/man1/ykactor.1"),
}


def described(command: click.Command, words: str) -> click.Command:
    """The command of these words with its line in lists, its examples, and the topic of its connection options."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            described(below, f"{words} {name}")
    parts = []
    if words in EXAMPLES:
        parts.append("\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[words])]))
    if any(isinstance(parameter, ConnectionOption) for parameter in command.params):
        parts.append("ykactor help connection describes --url and the other options of commands that connect to a daemon.")
    command.epilog = "\n\n".join(parts)
    command.short_help = SUMMARIES.get(words)
    return command
