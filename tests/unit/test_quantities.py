import pytest

from ykactor.core.values.quantities import (
    QuantityError,
    is_queue_name,
    parse_duration,
    parse_int32,
    parse_quantity,
    parse_uint64,
    quantity_text,
    shown,
)

#: CF-29, CF-30: input, as vcore, as another type; None is an error.
TABLE = [
    ("0", 0, 0),
    ("1", 1000, 1),
    ("500m", 500, None),
    (" 25  k ", 25000000, 25000),
    ("2Ki", 2048000, 2048),
    ("9223372036854775807", None, 9223372036854775807),
    ("9223372036854775", 9223372036854775000, 9223372036854775),
    ("9223372036854775808", None, None),
    ("7E", None, 7000000000000000000),
    ("7Ei", None, 8070450532247928832),
    ("1000E", None, None),
    ("5X", None, None),
    ("-1", None, None),
    ("1.5", None, None),
    ("1K", None, None),
    ("", None, None),
]

SUFFIXES = {
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


@pytest.mark.parametrize(("text", "vcore", "other"), TABLE)
def test_table(text: str, vcore: int | None, other: int | None) -> None:
    """CF-29, CF-30: for vcore (thousandths) and for every other type."""
    for name, expected in (("vcore", vcore), ("memory", other), ("cpu", other), ("vcores", other)):
        if expected is None:
            with pytest.raises(QuantityError):
                parse_quantity(name, text)
        else:
            assert parse_quantity(name, text) == expected


@pytest.mark.parametrize(("suffix", "factor"), SUFFIXES.items())
def test_suffixes(suffix: str, factor: int) -> None:
    """Every suffix has its factor, decimal for one letter and binary with an i (CF-29)."""
    assert parse_quantity("memory", "3" + suffix) == 3 * factor


@pytest.mark.parametrize("text", ["+1", "1e3", "1_000", "1ki", "1mi", "1g", "1GB", "1GiB", "k", "1 k k", "\uff11", "1\n2", "0x1"])
def test_rejected_forms(text: str) -> None:
    """CF-30: signs, fractions, exponents, underscores, unknown suffixes and digits of other scripts are errors."""
    with pytest.raises(QuantityError):
        parse_quantity("memory", text)


def test_many_digits_overflow() -> None:
    """CF-30: thousands of digits are an overflow like any other, and leading zeros do not count."""
    with pytest.raises(QuantityError, match="expected at most 9223372036854775807"):
        parse_quantity("memory", "9" * 10_000)
    assert parse_quantity("memory", "0" * 10_000 + "7k") == 7000


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("memory", "1K", "found '1K', unknown suffix 'K', expected k or Ki"),
        ("memory", "1GB", "found '1GB', unknown suffix 'GB', expected G or Gi"),
        ("memory", "5m", "found '5m', the suffix m (thousandths) is for vcore only"),
        (
            "vcore",
            "5X",
            "found '5X', unknown suffix 'X', expected one of m (thousandths), k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei",
        ),
        ("gpu", "5X", "found '5X', unknown suffix 'X', expected one of k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"),
        ("vcore", "", "found nothing, expected a whole number with an optional suffix such as m (thousandths) or k"),
        ("memory", "0.5", "found '0.5', expected a whole number with an optional suffix such as k, M, Gi"),
        ("vcore", "0.5", "found '0.5', expected a whole number with an optional suffix such as m (thousandths) or k: write 500m"),
        (
            "vcore",
            "1.25",
            "found '1.25', expected a whole number with an optional suffix such as m (thousandths) or k: write 1250m",
        ),
        (
            "vcore",
            ".0010",
            "found '.0010', expected a whole number with an optional suffix such as m (thousandths) or k: write 1m",
        ),
        ("vcore", "0.0001", "found '0.0001', expected a whole number with an optional suffix such as m (thousandths) or k"),
        ("vcore", "7E", "found '7E', expected at most 9223372036854775807 thousandths of a vcore"),
    ],
)
def test_messages(name: str, text: str, message: str) -> None:
    """A refusal says what was found and what to write instead."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(name, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("+5", 5), ("-5", -5), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31)),
        ("2147483648", None), ("-2147483649", None), ("", None), ("+", None), (" 1", None), ("1 ", None), ("1_0", None),
        ("1.0", None), ("1\n", None), ("9" * 10_000, None), ("--1", None), ("٣", None),
    ],
)  # fmt: skip
def test_int32(text: str, value: int | None) -> None:
    """CF-26: sign and decimal digits within int32, nothing else."""
    assert parse_int32(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("18446744073709551615", 2**64 - 1), ("18446744073709551616", None), ("+1", None), ("1.5", None), ("", None)],
)
def test_uint64(text: str, value: int | None) -> None:
    """CF-27: decimal digits up to 2**64 - 1."""
    assert parse_uint64(text) == value


@pytest.mark.parametrize("name", ["a", "A_1:#/@-", "x" * 64])
def test_legal_queue_names(name: str) -> None:
    """CF-20: 1 to 64 characters of a small set."""
    assert is_queue_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "x" * 65, "a\n", "a*"])
def test_illegal_queue_names(name: str) -> None:
    """CF-20: no dot, no space, no other script, no trailing newline."""
    assert not is_queue_name(name)


def test_shown_is_short_and_on_one_line() -> None:
    """Found values fit into one line of a message."""
    assert shown("") == "nothing"
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 1000)) < 70


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("1.5s", 1_500_000_000),
        (".5ms", 500_000),
        ("2us3ns", 2003),
        ("1µs", 1000),
        ("-1s", -(10**9)),
        ("+2m", 120 * 10**9),
        ("0", 0),
        ("0s", 0),
        ("30", None),
        ("5 s", None),
        ("1d", None),
        ("s", None),
        (".s", None),
        ("", None),
        ("-", None),
        ("9" * 90 + "h", None),
        ("1" * 200 + "s", None),
        ("2562048h", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    """CF-25: Go's form, no spaces, 64 bits."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("name", "quantity", "text"),
    [
        ("vcore", 2000, "2"),
        ("vcore", 2500, "2500m"),
        ("vcore", 0, "0"),
        ("memory", 2 << 30, "2Gi"),
        ("memory", 1536 << 20, "1536Mi"),
        ("memory", 10**9, "1G"),
        ("memory", 64 * 10**6, "64M"),
        ("memory", 1000 << 10, "1000Ki"),
        ("memory", 1001, "1001"),
        ("memory", 0, "0"),
        ("memory", -(1 << 20), "-1Mi"),
        ("pods", 2048, "2048"),
    ],
)
def test_quantities_are_shown_exactly(name: str, quantity: int, text: str) -> None:
    """The unit of which there are fewest, binary or decimal: nothing is rounded away."""
    assert quantity_text(name, quantity) == text
    assert quantity < 0 or parse_quantity(name, text) == quantity
