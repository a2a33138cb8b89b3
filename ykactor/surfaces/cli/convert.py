"""``ykactor convert``: recorded workloads of other systems to scenarios, queue files to ConfigMaps, and scripts of Slurm."""

import re
from pathlib import Path
from typing import BinaryIO

import click

from ykactor.core.values.quantities import parse_quantity
from ykactor.core.values.words import plural
from ykactor.sim.openb import openb_scenario, read_nodes, read_tasks
from ykactor.sim.sacct import read_jobs as sacct_jobs
from ykactor.sim.swf import read_header
from ykactor.sim.swf import read_jobs as swf_jobs
from ykactor.sim.traces import LeftOut, Machine, TraceError, scenario_of
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_FILE, Parsed, WholeNumber
from ykactor.surfaces.cli.queue_files import NoTextError, explained, name_of, read_once, warn
from ykactor.surfaces.cli.sbatch import convert
from ykactor.surfaces.cli.terminal import JsonFile, say, write
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.queuefile.manifests import config_map, open_queues
from ykactor.wire.scenario import Scenario, dump_jsonl
from ykactor.wire.si import messages as si

#: The name of a ConfigMap (RFC 1123); Kubernetes allows less for a namespace.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
#: The nodes of a machine.
NODES_MAX = 100_000


_OUTPUT_OPTION = click.option("-o", "--output", metavar="OUT.jsonl", type=JsonFile("wb"), default="-", help="Default: stdout.")
_MEMORY_OPTION = click.option(
    "--node-memory",
    type=Parsed("memory", lambda text: parse_quantity("memory", text)),
    help="The memory of each node, such as 64Gi. Without it the memory of jobs does not count.",
)


@click.group()
def command() -> None:
    """Convert a recorded workload to a scenario, a queue file to a ConfigMap, or a script of Slurm."""


@command.command()
@click.argument("nodes_csv", metavar="NODES.csv", type=EXISTING_FILE)
@click.argument("tasks_csv", metavar="TASKS.csv", type=EXISTING_FILE)
@_OUTPUT_OPTION
def openb(nodes_csv: Path, tasks_csv: Path, output: BinaryIO) -> None:
    """Convert the openb GPU trace (Alibaba, 2023).

    The scenario is written as JSON Lines. NODES.csv has the columns sn, cpu_milli, memory_mib, gpu and model; TASKS.csv has name,
    cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, creation_time, deletion_time and scheduled_time (seconds). Further
    columns are ignored.

    Each task becomes an application with one ask in the leaf of its quality of service: root.ls, root.guaranteed,
    root.burstable or root.be. It is submitted at creation_time and then runs, whenever it is placed, for as long as in the trace:
    from scheduled_time (creation_time if that is empty) to deletion_time.

    Whole GPUs are the resource gpu, and fractions of one gpu-milli, of which a whole one is 1000: in total for each node, so a
    task may be placed where no single device has room for it. A task with a gpu_spec selects nodes by their attribute gpu-model.
    """
    with exit_codes.ending(TraceError):
        scenario = openb_scenario(read_nodes(nodes_csv), read_tasks(tasks_csv))
    dump_jsonl(scenario, output)


@command.command()
@click.argument("trace", metavar="TRACE.swf", type=EXISTING_FILE)
@click.option("--nodes", type=WholeNumber(1, NODES_MAX), help="The number of nodes.  [default: MaxNodes of the trace]")
@click.option(
    "--node-processors", type=WholeNumber(1, 10**6), help="The processors of each node.  [default: MaxProcs by MaxNodes]"
)
@_MEMORY_OPTION
@_OUTPUT_OPTION
def swf(trace: Path, nodes: int | None, node_processors: int | None, node_memory: int | None, output: BinaryIO) -> None:
    """Convert a trace in the Standard Workload Format (Parallel Workloads Archive).

    Each job becomes an application with one ask of its processors and memory, or if it is wider than a node, a gang of the fewest
    equal parts that each fit on one. It is submitted as in the trace, and then runs, whenever it is placed, as long as in the
    trace; the tag recorded-wait-seconds has how long it waited there. Queues, users and groups are named by their
    numbers: root.q1, u7, g3. Jobs that did not run, or whose size is not known, are left out and counted on standard error.
    """
    left_out = LeftOut()
    with exit_codes.ending(TraceError):
        header = read_header(trace)
        if (count := nodes or header.nodes) is None or (each := node_processors or _each(header.processors, count)) is None:
            raise click.UsageError(f"{trace} does not say how large the machine is: add --nodes and --node-processors")
        scenario = scenario_of(trace.stem, Machine(count, each, node_memory), swf_jobs(trace), left_out)
    _write(scenario, left_out, output)


def _each(processors: int | None, nodes: int) -> int | None:
    return None if processors is None or processors < nodes else -(-processors // nodes)


@command.command()
@click.argument("file", metavar="SACCT.txt", type=EXISTING_FILE)
@click.option("--nodes", type=WholeNumber(1, NODES_MAX), required=True, help="The number of nodes.")
@click.option("--node-processors", type=WholeNumber(1, 10**6), required=True, help="The processors of each node.")
@click.option("--node-gpus", type=WholeNumber(0, 10**6), default=0, show_default=True, help="The GPUs of each node.")
@_MEMORY_OPTION
@click.option("--queue-by", type=click.Choice(["partition", "account"]), default="partition", show_default=True)
@_OUTPUT_OPTION
def sacct(
    file: Path,
    nodes: int,
    node_processors: int,
    node_gpus: int,
    node_memory: int | None,
    queue_by: str,
    output: BinaryIO,
) -> None:
    """Convert the accounting of Slurm, as printed by sacct -P (--parsable2) with a line of names.

    \b
    sacct -P -X -a -S 2024-03-01 -o JobID,User,Group,Account,Partition,Submit,Start,ElapsedRaw,ReqCPUS,ReqTRES,State

    Each job becomes an application, as by convert swf, in the queue of its partition or account. Second 0 is the first
    submission. Steps are not jobs, and do not count.
    """
    left_out = LeftOut()
    machine = Machine(nodes, node_processors, node_memory, node_gpus)
    with exit_codes.ending(TraceError):
        jobs = sacct_jobs(file, left_out, by_account=queue_by == "account")
        scenario = scenario_of(file.stem, machine, jobs, left_out)
    _write(scenario, left_out, output)


def _write(scenario: Scenario, left_out: LeftOut, output: BinaryIO) -> None:
    dump_jsonl(scenario, output)
    applications = sum(isinstance(message.request, si.ApplicationRequest) for message in scenario.messages)
    say("; ".join(filter(None, [f"converted {plural(applications, 'job')}", str(left_out)])), err=True)


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


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def sbatch(file: str) -> None:
    """Print the script FILE with lines #YKACTOR for its lines #SBATCH; - is standard input.

    What has no counterpart stays as a comment, and is named on standard error with line and reason; then the exit code is 1. The
    same holds for srun, and for variables SLURM_... that there are not; for the others --slurm-env is added. A partition becomes
    the queue of this name below root. Cores, memory and GPUs of --ntasks tasks are added up, because the script is one task.
    """
    try:
        converted = convert(read_once(file))
    except NoTextError as error:
        raise click.ClickException(str(error)) from None
    write(converted.text.removesuffix("\n").split("\n"))
    for lost in converted.lost:
        say(f"{name_of(file)}:{lost.line}: {lost.what}: {lost.reason}", err=True)
    if converted.lost:
        raise SystemExit(exit_codes.FAILED)
