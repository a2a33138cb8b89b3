"""Numbers on the command line: what is told of a wrong one."""

from collections.abc import Iterator

import click
import pytest

from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.options import Number, WholeNumber


def parameters(command: click.Command, ctx: click.Context) -> Iterator[click.Parameter]:
    """The options and arguments of a command and of all below it."""
    yield from command.params
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from parameters(below, ctx)


def test_every_number_says_what_is_expected() -> None:
    """Numbers of options and arguments have our errors, not those of click."""
    bare = (click.types.IntParamType, click.types.FloatParamType)
    numbers = [each for each in parameters(main, click.Context(main)) if isinstance(each.type, bare)]
    assert len(numbers) > 8
    assert [each.name for each in numbers if not isinstance(each.type, WholeNumber | Number)] == []


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (WholeNumber(0, 100), "abc", "found 'abc', expected a whole number from 0 to 100"),
        (WholeNumber(0, 100), "101", "found '101', expected a whole number from 0 to 100"),
        (WholeNumber(-(2**31), 2**31 - 1), "1.5", "found '1.5', expected a whole number from -2147483648 to 2147483647"),
        (WholeNumber(min=1), "0", "found '0', expected a whole number of at least 1"),
        (Number(min=0), "-1", "found '-1', expected a number of at least 0"),
        (Number(min=0), "inf", "found 'inf', expected a number of at least 0"),
        (Number(min=0, min_open=True), "0", "found '0', expected a number above 0"),
        (Number(min=0, min_open=True), "nan", "found 'nan', expected a number above 0"),
    ],
)
def test_a_wrong_number(kind: WholeNumber | Number, text: str, expected: str) -> None:
    """The error has what was found and what was expected, also for what is no number and for one that is not finite."""
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)
    assert refused.value.message == expected


def test_a_number_within_its_range() -> None:
    """Text and defaults are taken as they are."""
    assert (WholeNumber(0, 100).convert("100", None, None), WholeNumber(min=1).convert(1, None, None)) == (100, 1)
    assert (Number(min=0).convert("0", None, None), Number(min=0, min_open=True).convert("1e-3", None, None)) == (0, 0.001)
