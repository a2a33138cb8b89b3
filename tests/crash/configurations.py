"""Configurations that may be in force after a daemon was killed (DU-9)."""

from __future__ import annotations

from pathlib import Path

from ledger import Ledger

from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.surfaces.files.daemon_rows import ChangeRow
from ykactor.surfaces.files.recovery import Recovered
from ykactor.wire.queuefile.load import load
from ykactor.wire.si import messages as si


class Configurations:
    """The queue file, and what is known of the configuration in force: it is the one that was acknowledged last, or one that was
    on its way.
    """

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._in_force = load(text).checksum
        #: The checksums of queue files that may not have been applied yet.
        self._files: set[str] = set()
        self.write(text)

    def write(self, text: str) -> None:
        """Another queue file."""
        self._file.write_text(text)
        self._files.add(load(text).checksum)

    def check(self, recovered: Recovered, ledger: Ledger | None) -> None:
        """Against what a daemon has left behind; the ledger has taken all messages."""
        in_force = _in_force(recovered)
        allowed = self._allowed(ledger)
        assert in_force.checksum in allowed, f"{in_force.checksum} is in force, expected one of {allowed}"
        self.take(recovered)

    def take(self, recovered: Recovered) -> None:
        """Believe what a daemon has left behind, but for a mixture."""
        _check_partitions(recovered)
        self._in_force = _in_force(recovered).checksum
        self._files = {load(self._file.read_text()).checksum} - {_last_change(recovered).checksum}

    def _allowed(self, ledger: Ledger | None) -> set[str]:
        acknowledged: list[str] = []
        allowed = self._files
        if ledger is not None:
            acknowledged, ledger.configurations = ledger.configurations, []
            waiting = [sent.request for sent in ledger.unanswered.values()]
            texts = [request.config for request in waiting if isinstance(request, si.UpdateConfigurationRequest)]
            allowed = allowed | {load(text).checksum for text in texts}
        return allowed | {acknowledged[-1] if acknowledged else self._in_force}


def _in_force(recovered: Recovered) -> SchedulerConfig:
    """The configuration with which the next daemon begins: it finishes what was under way."""
    return recovered.config if recovered.unfinished is None else recovered.unfinished.config


def _last_change(recovered: Recovered) -> ChangeRow:
    return recovered.change if recovered.unfinished is None else recovered.unfinished.change


def _check_partitions(recovered: Recovered) -> None:
    """Each partition has the configuration in force; during a change it may have the next one already."""
    configs = [_partitions(config) for config in (recovered.config, _in_force(recovered))]
    for name, restored in recovered.partitions.items():
        found = restored.core.registry.config
        assert found in [partitions.get(name) for partitions in configs], f"partition {name} has {found}"


def _partitions(config: SchedulerConfig) -> dict[str, PartitionConfig]:
    return {str(partition.name): partition for partition in config.partitions}
