"""The resources of this machine."""

import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ykactor.core.values.names import is_user_name
from ykactor.core.values.quantities import quantity_text

_SIZE = "this machine has no more; what is larger belongs on a cluster"
#: The resource type of GPUs, if none is named, and the names that they have elsewhere.
GPU = "gpu"
_GPU_TYPES = (GPU, "nvidia.com/gpu")
_PROC, _CGROUP, _DEV = Path("/proc"), Path("/sys/fs/cgroup"), Path("/dev")


class Machine(Struct, frozen=True):
    """A node.

    Attributes:
        resource: in base units: ``vcore`` in thousandths, ``memory`` in bytes, others in single units.
        gpus: the indices of its GPUs.
        gpu_type: the name of their resource type, as in the queue file.
    """

    node_id: str
    resource: dict[str, int]
    gpus: list[int]
    gpu_type: str = GPU

    def in_types(self, resource: Mapping[str, int]) -> dict[str, int]:
        """The resource with its GPUs under the name that they have here: those of all names are the same."""
        gpus = sum(resource.get(name, 0) for name in {*_GPU_TYPES, self.gpu_type})
        others = {name: amount for name, amount in resource.items() if name not in (*_GPU_TYPES, self.gpu_type)}
        return others | ({self.gpu_type: gpus} if gpus else {})

    def has_no_room(self, resource: Mapping[str, int], count: int) -> str:
        """The reason for which ``count`` tasks with ``resource`` in base units can never run here together; "" if they can."""
        for name, amount in resource.items():
            total, limit = amount * count, self.resource.get(name, 0)
            if total <= limit:
                continue
            if not limit:
                return f"this machine has no {name}"
            gang = f" for a gang of {count}" if count > 1 else ""
            found, most = quantity_text(name, total), quantity_text(name, limit)
            return f"found {found} of {name}{gang}, expected at most {most}: {_SIZE}"
        return ""


def this_machine(extra: Mapping[str, int], gpu_type: str = GPU) -> Machine:
    """The cores that this process may use, the memory that it may, and the GPUs of NVIDIA.

    Args:
        extra: amounts in base units, instead of or beside what is found; ``gpu`` counts from index 0.
        gpu_type: the name of the resource type of its GPUs.
    """
    given = [extra[name] for name in (gpu_type, *_GPU_TYPES) if name in extra]
    found = {"vcore": vcore(len(os.sched_getaffinity(0)), _CGROUP), "memory": memory_bytes(_PROC, _CGROUP)}
    gpus = list(range(given[0])) if given else gpu_indices(_DEV)
    others = {name: amount for name, amount in extra.items() if name not in (gpu_type, *_GPU_TYPES)}
    resource = found | others | {gpu_type: len(gpus)}
    return Machine(socket.gethostname(), {name: amount for name, amount in resource.items() if amount}, gpus, gpu_type)


def vcore(cores: int, cgroup: Path) -> int:
    """Thousandths of cores: of the cores, or the quota of the cgroup (version 2) if that is lower, as in a container."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores * 1000
    return min(cores * 1000, int(quota) * 1000 // int(period)) if quota.isdecimal() else cores * 1000


def memory_bytes(proc: Path, cgroup: Path) -> int:
    """The memory of the machine, or the limit of its cgroup (version 2) if that is lower."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
    assert match is not None, "the kernel writes it"
    total = int(match[1]) * 1024
    try:
        limit = (cgroup / "memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdecimal() else total


def this_user() -> str:
    """The name of the user of this process."""
    return user_name(os.geteuid())


def user_name(uid: int) -> str:
    """The name of a user.

    ``uid1000`` for one without a name, as in some containers, or with one that is none for the daemon (CF-21): ``CORP\\bob``.
    """
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return name if is_user_name(name) else f"uid{uid}"


def gpu_indices(dev: Path) -> list[int]:
    """The GPUs of which there are devices."""
    return sorted(int(path.name.removeprefix("nvidia")) for path in dev.glob("nvidia[0-9]*") if path.name[6:].isdecimal())


def boot_id() -> str:
    """Another one after each start of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
