"""``python -m bench.recovering``: how long a daemon that was killed takes until it is back; draws ``bench/recovery.svg``."""

from functools import partial
from pathlib import Path

import click
import trio

from bench.chart import chart
from bench.journal import recovery
from bench.memory import Cluster

PICTURE = Path(__file__).parent / "recovery.svg"
#: Running allocations; a fifth as many asks wait, and ten allocations run on each node.
ALLOCATIONS = (1_000, 3_000, 10_000, 30_000, 100_000)


@click.command()
def main() -> None:
    """Measure all points and draw the picture."""
    points: list[tuple[int, float]] = []
    for count in ALLOCATIONS:
        known = Cluster(nodes=count // 10, each=10, asks=count // 5)
        samples = trio.run(partial(recovery, known))
        points.append((count, samples["start_s"][0]))
        click.echo(f"{count} allocations: {points[-1][1]:.2f} s")
    title = "Seconds from kill -9 and a new start to the socket, by running allocations"
    PICTURE.write_text(chart(title, {"with a fifth as many pending asks": ("blue", points)}))
    click.echo(PICTURE)


if __name__ == "__main__":
    main()
