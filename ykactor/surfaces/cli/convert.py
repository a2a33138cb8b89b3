"""``ykactor convert``: converts recorded workloads of other systems to scenarios for ``ykactor simulate``."""

from pathlib import Path
from typing import BinaryIO

import click

from ykactor.sim.openb import TraceError, openb_scenario, read_nodes, read_tasks
from ykactor.wire.scenario import dump_jsonl

_EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def command() -> None:
    """Convert a recorded workload to a scenario."""


@command.command()
@click.argument("nodes_csv", metavar="NODES.csv", type=_EXISTING_FILE)
@click.argument("tasks_csv", metavar="TASKS.csv", type=_EXISTING_FILE)
@click.option("-o", "--output", metavar="OUT.jsonl", type=click.File("wb"), default="-", help="Default: stdout.")
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
    try:
        scenario = openb_scenario(read_nodes(nodes_csv), read_tasks(tasks_csv))
    except TraceError as mistake:
        raise click.ClickException(str(mistake)) from None
    dump_jsonl(scenario, output)
