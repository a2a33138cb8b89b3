"""A scrape: everything that is measured and counted, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.core.values.parts import Pausing
from ykactor.surfaces.metrics import own, yunikorn
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.process import add_process
from ykactor.surfaces.metrics.reading import PartitionFigures
from ykactor.surfaces.metrics.sources import Sources


def scrape(sources: Sources, figures: Sequence[PartitionFigures]) -> Pausing[list[bytes]]:
    """The text.

    Args:
        figures: what was read just now, of the partitions that have answered.
    """
    to, instruments = Exposition(), sources.instruments
    yunikorn.add_scheduler(to, figures, instruments.facts, [actor.times for actor in sources.actors.values()])
    yield from yunikorn.add_queues(to, figures, instruments.facts, has_old_names=sources.has_old_names)
    own.add_build(to)
    own.add_partitions(to, sources.actors)
    own.add_waiting(to, figures)
    own.add_above_max(to, figures)
    paths = {path for partition in figures for path in partition.queues}
    own.add_counts(to, instruments.facts, len(paths))
    if len(figures) == len(sources.gateway.partitions):
        instruments.facts.queues.end_scrape(paths)
    own.add_actors(to, sources.gateway)
    own.add_loop(to, instruments.loop)
    own.add_sessions(to, instruments.sessions)
    if sources.certificate is not None:
        own.add_certificate(to, sources.certificate.expires_s())
    add_process(to)
    return (yield from to.encoded())
