"""Elements of SVG pictures, and round numbers for their axes."""

from xml.sax.saxutils import escape, quoteattr

from ykactor.core.values.printable import printable


def svg(width: float, height: float, style: str, parts: list[str]) -> str:
    """A picture on a white ground."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join(
        [head, f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"]
    )


def inline(width: float, height: float, label: str, parts: list[str]) -> str:
    """A picture in an HTML page, which has its style; ``label`` says what it shows."""
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(printable(label))}>'
    return "\n".join([head, *parts, "</svg>"])


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text; ``kind`` is a class of the style."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(printable(content))}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}"/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def polyline(points: list[tuple[float, float]], kind: str) -> str:
    """A line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" class="{kind}" style="fill: none"/>'


def dotted(points: list[tuple[float, float]], kind: str) -> str:
    """A line through points, with a dot on each."""
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{kind}"/>' for x, y in points]
    return "\n".join([polyline(points, kind), *dots])


def ticks(reach: float) -> list[float]:
    """Four to ten round numbers from zero to the first one that is not below ``reach``."""
    step = 10.0 ** (len(str(int(reach))) - 1)
    while reach / step < 4:
        step /= 2
    return [step * i for i in range(int(-(-reach // step)) + 1)]
