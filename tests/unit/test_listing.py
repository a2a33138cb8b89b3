"""Cells, tables and the formats of ``-o``."""

import json

import click
import pytest
import yaml
from rich.cells import cell_len

from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views import apps
from ykactor.surfaces.cli.views.listing import Column, Printout, field, formatted, table
from ykactor.surfaces.cli.views.view import Choice
from ykactor.wire.si import messages as si


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 300, "7h5m"),
        (8 * 3600 + 300, "8h"),
        (2 * 86_400, "2d"),
        (3 * 86_400 + 4 * 3600, "3d4h"),
        (8 * 86_400 + 4 * 3600, "8d"),
        (730 * 86_400 - 1, "729d"),
        (740 * 86_400, "2y10d"),
        (9 * 365 * 86_400, "9y"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    """Ages are printed as kubectl does: the longer, the less exact."""
    assert cells.age(seconds) == text


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ({}, "0"),
        ({"gpu": 12 * 3600, "memory": 2**28 * 3600, "vcore": 1500 * 3600}, "vcore=1.5core-h,memory=0.25GiB-h,gpu=12h"),
        ({"vcore": 8000, "memory": 8 * 2**24}, "vcore=0.00222core-h,memory=0.0000347GiB-h"),
        ({"gpu": 123456 * 3600}, "gpu=123456h"),
    ],
)
def test_resource_hours(amounts: dict[str, int], text: str) -> None:
    """Three digits, and never an exponent."""
    assert cells.resource_hours(amounts) == text


def test_amounts_are_one_word() -> None:
    """Amounts are in the order of events and in the units of the queue file; no amount is 0."""
    assert cells.resource({"gpu": 1, "memory": 3 * 2**20, "vcore": 1500}) == "vcore=1.5,memory=3Mi,gpu=1"
    assert cells.resource({}) == "0"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("vcore", 0, "0"),
        ("vcore", 1, "0.001"),
        ("vcore", 500, "0.5"),
        ("vcore", 12_345, "12.3"),
        ("vcore", 1_234_567, "1235"),
        ("vcore", -1500, "-1.5"),
        ("memory", 0, "0"),
        ("memory", 1023, "1023"),
        ("memory", 1024, "1Ki"),
        ("memory", 24_684_096 * 2**10, "23.5Gi"),
        ("memory", 512 * 2**20, "512Mi"),
        ("memory", 1023 * 2**20, "1023Mi"),
        ("memory", 2**30 - 1, "1Gi"),
        ("memory", 999_500 * 2**10, "976Mi"),
        ("memory", 1_125 * 2**20 * 2**10 // 1000 * 1000 // 2**10, "1.1Gi"),
        ("memory", -(3 * 2**29), "-1.5Gi"),
        ("memory", 2**63 - 1, "8Ei"),
        ("ephemeral-storage", 10 * 2**30, "10Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("gpu", 1_234_567, "1234567"),
        ("memory-like", 2**30, "1073741824"),
    ],
)
def test_amounts_as_people_read_them(name: str, value: int, text: str) -> None:
    """Three digits in the unit of which there is at least one, and no digit of a count is lost."""
    assert cells.amount(name, value) == text


EVIL = 'a\x1b[2J\nb\x9b31m\u202e\x7f"é'


def test_what_a_terminal_would_obey() -> None:
    """Control characters of a name are not printed in any format, and JSON and YAML still have the name."""
    column = Column("NAME", field("name"))
    printout = Printout([{"name": EVIL}], [EVIL], lambda is_wide: table([column], [{"name": EVIL}]))
    printed = {output: "\n".join(formatted(printout, output)) for output in ("table", "json", "yaml", "name")}
    for text in printed.values():
        assert all(char.isprintable() or char == "\n" for char in text)
    assert printed["name"] == 'a\\x1b[2J\\nb\\x9b31m\\u202e\\x7f"é'
    assert printed["table"] == f"NAME\n{printed['name']}"
    assert json.loads(printed["json"]) == yaml.safe_load(printed["yaml"]) == [{"name": EVIL}]


def test_json_beyond_the_first_characters() -> None:
    """A character that needs two units of UTF-16 and is not printable stays the same."""
    tag = "\U000e0041"
    (text,) = formatted(Printout([tag], [], lambda is_wide: []), "json")
    assert text.isascii()
    assert json.loads(text) == [tag]


def test_columns_are_aligned_by_what_is_seen() -> None:
    """Wide characters take two places, colours none; an empty text is ``-``, so that each line has the same number of words."""
    columns = [Column("NAME", field("name")), Column("N", field("n"), is_number=True, colour=lambda row: "red")]
    columns.append(Column("WHY", field("why")))
    rows = [{"name": "節点", "n": 7, "why": ""}, {"name": "node-1", "n": 1234}]
    lines = [click.unstyle(line) for line in table(columns, rows)]
    assert [line.split() for line in lines] == [["NAME", "N", "WHY"], ["節点", "7", "-"], ["node-1", "1234", "-"]]
    assert {cell_len(line.rpartition(" ")[0]) for line in lines} == {cell_len("node-1  1234 ")}


def test_a_caller_that_sees_no_partition_is_not_told_that_there_is_nothing() -> None:
    """SE-26: a daemon has a partition; so the caller is limited to others."""
    printout = apps.VIEW.of(si.Snapshot(sequence=1, partitions=[]), Choice.of(), "name", 0)
    assert printout.nothing == "there are no applications that the daemon shows you"
