"""Tables on terminals: what fits stays a line, and nothing is ever cut."""

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ykactor.surfaces.cli.views import listing
from ykactor.surfaces.cli.views.fitting import broken
from ykactor.surfaces.cli.views.listing import Column, Row, field, table

COLUMNS = (
    Column("ASK", field("ask")),
    Column("COUNT", field("count"), is_number=True),
    Column("QUEUE-PRIO", field("priority"), is_number=True),
    Column("EACH", field("each")),
    Column("REASON", field("reason"), is_sentence=True),
)
#: A cell without a text is ``-``, but for a sentence below its row.
BLANKS = Counter({" ": 10**6, "-": 10**6})
ROW = {
    "ask": "job-14.12",
    "count": 3,
    "priority": -5,
    "each": "vcore=4,memory=23.5Gi",
    "reason": "wants 4, has 0 of 4 vcore in queue root.research.team-a",
}


def printed(monkeypatch: pytest.MonkeyPatch, width: int | None, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    monkeypatch.setattr(listing, "terminal_width", lambda: width)
    return list(table(columns, rows))


def test_a_sentence_has_room_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence is broken where it stands, as long as it has room; on a narrow terminal it is below its row."""
    whole = printed(monkeypatch, None, COLUMNS, [ROW])
    assert whole[1].endswith("  vcore=4,memory=23.5Gi  wants 4, has 0 of 4 vcore in queue root.research.team-a")
    assert printed(monkeypatch, max(map(len, whole)), COLUMNS, [ROW]) == whole
    assert printed(monkeypatch, 85, COLUMNS, [ROW]) == [
        "ASK        COUNT  QUEUE-PRIO  EACH                   REASON",
        "job-14.12      3          -5  vcore=4,memory=23.5Gi  wants 4, has 0 of 4 vcore in",
        "                                                     queue root.research.team-a",
    ]
    assert printed(monkeypatch, 41, COLUMNS, [ROW, ROW | {"reason": "-"}]) == [
        "ASK        COUNT    QUEUE-  EACH",
        "                      PRIO",
        "  REASON",
        "job-14.12      3        -5  vcore=4,",
        "                            memory=23.5Gi",
        "  wants 4, has 0 of 4 vcore in queue",
        "  root.research.team-a",
        "job-14.12      3        -5  vcore=4,",
        "                            memory=23.5Gi",
    ]
    assert printed(monkeypatch, 10, COLUMNS, []) == ["ASK  COUNT  QUEUE-  EACH", "              PRIO", "  REASON"]


@given(st.lists(st.lists(st.text("ab1 ,./-本", max_size=30), min_size=3, max_size=3), max_size=4), st.integers(1, 60))
def test_nothing_is_cut(rows: list[list[str]], width: int) -> None:
    """All characters of all cells but ``-`` are printed, in a terminal of any width; no line of a cell is too wide."""
    columns = [Column(name, field(name)) for name in ("X", "LONG-NAME")] + [Column("Z", field("Z"), is_sentence=True)]
    with pytest.MonkeyPatch.context() as patch:
        lines = printed(patch, width, columns, [dict(zip(("X", "LONG-NAME", "Z"), row, strict=True)) for row in rows])
    expected = "X LONG-NAME Z " + " ".join(text for row in rows for text in row)
    assert Counter("".join(lines)) - BLANKS == Counter(expected) - BLANKS
    for row in rows:
        for text in row:
            assert all(cell_len(line) <= max(2, width) for line in broken(text, max(2, width)))
            assert re.sub(" +", "", "".join(broken(text, width))) == text.replace(" ", "")
