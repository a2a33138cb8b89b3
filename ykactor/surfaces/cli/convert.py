"""``ykactor convert``: recorded workloads of other systems to scenarios, and queue files to ConfigMaps."""

import re
from pathlib import Path
from typing import BinaryIO

import click

from ykactor.sim.openb import TraceError, openb_scenario, read_nodes, read_tasks
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_FILE
from ykactor.surfaces.cli.queue_files import NoTextError, explained, name_of, read_once, warn
from ykactor.surfaces.cli.terminal import JsonFile, write
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.queuefile.manifests import config_map, open_queues
from ykactor.wire.scenario import dump_jsonl

#: The name of a ConfigMap (RFC 1123); Kubernetes allows less for a namespace.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


@click.group()
def command() -> None:
    """Convert a recorded workload to a scenario, or a queue file to a ConfigMap."""


@command.command()
@click.argument("nodes_csv", metavar="NODES.csv", type=EXISTING_FILE)
@click.argument("tasks_csv", metavar="TASKS.csv", type=EXISTING_FILE)
@click.option("-o", "--output", metavar="OUT.jsonl", type=JsonFile("wb"), default="-", help="Default: stdout.")
def openb(nodes_csv: Path, tasks_csv: Path, output: BinaryIO) -> None:
    """Convert the openb GPU trace (Alibaba, 2023).

    The scenario is written as JSON Lines. NODES.csv has the columns sn, cpu_milli, memory_mib and gpu; TASKS.csv has name,
    cpu_milli, memory_mib, num_gpu, gpu_milli, qos, creation_time, deletion_time and scheduled_time (seconds). Further columns
    are ignored.

    Each task becomes an application with one ask in the leaf of its quality of service: root.ls, root.guaranteed,
    root.burstable or root.be. It is submitted at creation_time and then runs, whenever it is placed, for as long as in the trace:
    from scheduled_time (creation_time if that is empty) to deletion_time.

    GPUs are counted in thousandths, as the resource gpu-milli, in total for each node: single devices of a node are not
    modelled. The GPU models that a task accepts (gpu_spec) are ignored.
    """
    with exit_codes.ending(TraceError):
        scenario = openb_scenario(read_nodes(nodes_csv), read_tasks(tasks_csv))
    dump_jsonl(scenario, output)


def _kubernetes_name(_ctx: click.Context, _param: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"found {name!r}, expected lower case letters, digits, - and . inside")
    return name


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--name", default="yunikorn-configs", show_default=True, callback=_kubernetes_name, help="The name of the ConfigMap."
)
@click.option(
    "--namespace", default="yunikorn", show_default=True, callback=_kubernetes_name, help="The namespace of the ConfigMap."
)
def configmap(file: str, name: str, namespace: str) -> None:
    """Print a ConfigMap with the queue file FILE; - is standard input.

    The queue file is checked first: if it has mistakes, they are printed as by check-config, and nothing is converted. FILE may
    be a ConfigMap or Helm values too; other settings in it are left out. Kubernetes accepts up to 1 MiB.
    """
    try:
        text = read_once(file)
        config = load(text, name_of(file))
    except NoTextError as error:
        raise click.ClickException(str(error)) from None
    except ConfigError as error:
        warn(error.warnings)
        raise click.ClickException(explained(error)) from None
    warn(config.warnings)
    write(config_map(open_queues(config.text, name_of(file)).text, name, namespace).removesuffix("\n").split("\n"))
