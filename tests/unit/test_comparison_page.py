"""``surfaces/cli/report``: a comparison as text and as one HTML file."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from generate import generate
from msgspec import structs

from ykactor.sim import trial
from ykactor.sim.comparison import Applications, Compared, Comparison, Names, Range, compare
from ykactor.surfaces.cli.report import html, text
from ykactor.surfaces.cli.report.figures import Line, causes_text, change_text, headline, percent, seconds, work_of
from ykactor.surfaces.cli.report.plots import Axis, reaching, shortened

#: Names that would be markup, or commands of a terminal.
EVIL = '<script>alert("&")</script>\x1b[31m\n'


def comparison_of(*numbers: int, name: str = "day") -> Comparison:
    """A comparison of two generated scenarios."""
    runs = [trial.run(generate(number, reloads=1)) for number in numbers]
    return compare(Names(name, "base.yaml", "other.yaml"), runs[:1], runs[1:])


def tree_of(page: str) -> ET.Element:
    """The page as XML, which it is but for its first line."""
    first, _, rest = page.partition("\n")
    assert first == "<!DOCTYPE html>"
    return ET.fromstring(rest)


@pytest.mark.parametrize("numbers", [(1, 2), (3, 3), (4, 5)])
def test_the_page_is_complete_and_offline(numbers: tuple[int, int]) -> None:
    """Well formed; nothing is loaded and no script runs; each plot has a title, a description, units and a table."""
    page = html.page(comparison_of(*numbers))
    tree = tree_of(page)
    assert not re.search(r"https?:|//|url\(|@import", page)
    names = {element.tag for element in tree.iter()}
    assert not names & {"script", "link", "img", "iframe", "object", "use", "image", "a"}
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith("on") or name in ("src", "href")]
    figures = list(tree.iter("figure"))
    assert len(figures) > 3
    for figure in figures:
        caption, picture, details = figure
        assert (caption.tag, picture.tag, details.tag) == ("figcaption", "svg", "details")
        assert picture.get("aria-label") == caption.text
        units = [element.text or "" for element in picture.iter("text")]
        assert any(unit.strip() for unit in units)
        rows = list(details.iter("tr"))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


def test_names_are_no_markup() -> None:
    """Queues, users and scenarios may be called anything."""
    found = comparison_of(1, 2, name=EVIL)
    report = found.report
    evil = structs.replace(
        found,
        report=structs.replace(report, users={EVIL: next(iter(report.users.values())), **report.users}),
        shares={EVIL: next(iter(found.shares.values()))},
        applications=structs.replace(found.applications, paired=1),
    )
    page = html.page(evil)
    tree = tree_of(page)
    assert not list(tree.iter("script"))
    assert "\x1b" not in page
    assert any('alert("&")' in "".join(element.itertext()) for element in tree.iter("th"))
    printed = "\n".join(text.lines(evil))
    assert "\x1b" not in printed


def test_a_comparison_of_nothing() -> None:
    """A scenario without any ask: no division, no plot of nothing."""
    empty = structs.replace(generate(1), messages=[])
    runs = [trial.run(empty), trial.run(empty)]
    found = compare(Names("empty", "a", "b"), runs[:1], runs[1:])
    assert tree_of(html.page(found))
    assert any(line.startswith("wait mean") for line in text.lines(found))


def test_a_line_names_who_lost_and_won_most() -> None:
    """Not those whose ranges overlap; nothing if it rises or falls for none."""
    owners = {
        "root.a": Compared(60.0, 30.0, -30.0),
        "user eve": Compared(0.0, 90.0, 90.0),
        "user bob": Compared(0.0, 900.0, 900.0, Range(0, 900), Range(0, 900), False),
        "group dev": Compared(None, 5.0, None),
    }
    line = Line("wait p50", Compared(4.0, 3.0, -1.0), seconds, owners)
    assert (line.base, line.other, line.change) == ("4.00s", "3.00s", "-1.00s")
    assert (line.extreme(1), line.extreme(-1)) == ("user eve +90s", "root.a -30s")
    assert structs.replace(line, owners={}).extreme(1) == ""


def test_values_with_ranges() -> None:
    """A range is shown if it is one; what overlaps is not distinguishable."""
    figure = Compared(4.0, 3.0, -1.0, Range(3.0, 60.0), Range(3.0, 3.0), False)
    line = Line("wait p50", figure, seconds)
    assert (line.base, line.other, line.change) == ("4.00s (3.00s to 60s)", "3.00s", "not distinguishable")


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Compared(1.0, 1.0, 0.0), "0"),
        (Compared(1.0, 1.01, 0.01), "0"),
        (Compared(1.0, 3.0, 2.0), "+2.0 %"),
        (Compared(3.0, 1.0, -2.0), "-2.0 %"),
        (Compared(None, 1.0, None), "-"),
    ],
)
def test_changes_have_a_sign(figure: Compared, expected: str) -> None:
    """A change that is shown as nothing is 0; without a value in one run there is none."""
    assert change_text(figure, percent) == expected


def test_causes_of_a_wait() -> None:
    """The largest parts come first."""
    parts = {"NEXT": Compared(1.0, 2.0, 1.0), "QUOTA": Compared(1080.0, 60.0, -1020.0), "NODES": Compared(180.0, 1980.0, 1800.0)}
    assert causes_text(parts, 2) == "NODES 3m -> 33m, QUOTA 18m -> 60s"
    assert causes_text({}, 2) == ""
    assert causes_text({"NEXT": Compared(0.001, 0.0, -0.001)}, 9) == ""


def test_work_has_the_unit_of_which_there_is_one() -> None:
    """Hours, minutes or seconds; what is less than 0.005 s is nothing."""
    vcore, other = work_of("vcore"), work_of("gpu")
    assert [vcore(1000 * seconds) for seconds in (504_000, 3600, 90, 0.5, 0.003)] == [
        "140 core h", "1 core h", "1.5 core min", "0.5 core s", "0",
    ]  # fmt: skip
    assert (other(7200), other(90), work_of("memory")(2**30 * 60)) == ("2 h", "1.5 min", "1 GiB min")


@pytest.mark.parametrize("numbers", [(1, 2), (4, 5)])
def test_tables_without_a_terminal_have_80_columns(numbers: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are broken into lines, as on a terminal of this width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    found = comparison_of(*numbers)
    rows = [line for line in text.lines(found) if not line.endswith(":") and line != text.pairs(found.applications)]
    assert max(map(len, rows)) <= 80


def test_the_type_of_which_most_is_used() -> None:
    """The type of which most is used, in each run; types that are not used at all are left out."""
    used = {"vcore": Compared(10.0, 5.0, -5.0), "gpu": Compared(0, 30.0, 30.0), "disk": Compared(None, None, None)}
    assert text.most_used(used) == Compared(10.0, 30.0, None)
    assert text.most_used({}) == Compared(None, None, None)


def test_debts_that_differ_most() -> None:
    """Five debts are shown at most, in the order of their difference; none where both are the same."""
    different = [line.name for line in headline(comparison_of(1, 2)) if line.name.startswith("debt ")]
    assert 0 < len(different) <= 5
    assert not [line for line in headline(comparison_of(1, 1)) if line.name.startswith("debt ")]


def test_the_rest_of_a_long_list_is_counted() -> None:
    """Ten rows, and how many there are beside them."""
    found = comparison_of(1, 2)
    group = found.report.users[next(iter(found.report.users))]
    many = structs.replace(found.report, users={f"u{number:02}": group for number in range(30)})
    printed = "\n".join(text.lines(structs.replace(found, report=many)))
    assert f"By user, {text.PAIRS} (20 more: -o json has all):" in printed
    assert len(re.findall(r"^u\d\d ", printed, re.MULTILINE)) == 10


@pytest.mark.parametrize("values", [[], [0.0], [0.003], [1.0], [87.3], [1e9]])
def test_axes_reach_their_values(values: list[float]) -> None:
    """An axis has at least two marks, ascending, from zero; the last is not below any value."""
    marks = reaching(values)
    assert marks[0] == 0
    assert marks == sorted(set(marks))
    assert 2 <= len(marks) <= 12
    assert marks[-1] >= max(values, default=0)


def test_a_logarithmic_axis() -> None:
    """Zero is at its begin."""
    axis = Axis("wait", seconds, (0, 9, 99), is_log=True)
    assert [axis.place(value) for value in (0, 9, 99)] == pytest.approx([0, 0.5, 1])


def test_long_names_are_cut_in_front() -> None:
    """The end of a queue tells most."""
    assert shortened("root.a") == "root.a"
    assert shortened("root." + "x" * 50 + ".leaf").endswith(".leaf")
    assert len(shortened("root." + "x" * 50 + ".leaf")) == 34


def test_applications_without_a_pair() -> None:
    """They are counted by the run that has them."""
    assert text.pairs(Applications(5, 2, 1, 3, 0, [], [])) == "2 of 5 applications wait longer, 1 less long, 3 only with base"


def test_the_page_is_the_only_file_that_a_report_needs() -> None:
    """The page has everything that it shows in itself, also its style."""
    page = html.page(comparison_of(1, 2))
    assert "<style>" in page
    assert len(page) < 2**20
    assert not [path.name for path in Path(html.__file__).parent.iterdir() if path.suffix in (".css", ".js")]
