"""The plots of ``bench/README.md``: they have what was measured, inside the picture."""

from xml.etree import ElementTree as ET

from bench import sweeps
from bench.chart import chart


def test_sweep_draws_a_point_for_each_value_inside_the_picture() -> None:
    """The cheapest run of each mix; dots do not leave the picture, whatever the costs."""
    for axis in sweeps.AXES:
        points = sweeps.measured(axis, lambda mix: 7.0 * mix.nodes + mix.waiting)
        assert list(points) == list(axis.lines)
        assert all([value for value, _ in of_line] == list(axis.values) for of_line in points.values())
        lines = {name: (sweeps.LINES[name][0], points[name]) for name in points}
        root = ET.fromstring(chart("costs", lines))
        dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
        assert len(dots) == len(axis.values) * len(axis.lines)
        assert all(0 < float(dot.attrib["cx"]) < float(root.attrib["width"]) for dot in dots)
        assert all(0 < float(dot.attrib["cy"]) < float(root.attrib["height"]) for dot in dots)
