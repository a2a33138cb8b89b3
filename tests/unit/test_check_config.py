import os
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner
from queuetexts import SAMPLES

from ykactor.surfaces.cli.queue_files import command
from ykactor.wire.queuefile.load import load
from ykactor.wire.si.lengths import CONFIG_MAX

CONFIG = Path(__file__).parents[2] / "config"
TEXT = "partitions:\n  - queues:\n      - name: a\n"


def check(*arguments: Path | str, standard_input: str = "") -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, list(map(str, arguments)), input=standard_input)
    return result.exit_code, result.stdout, result.stderr


def test_summary(tmp_path: Path) -> None:
    """A right file gives one line with the numbers and the checksum, and exit code 0."""
    path = tmp_path / "q.yaml"
    path.write_text(TEXT)
    checksum = load(TEXT).checksum
    assert check(path) == (0, f"{path}: ok, 1 partition, 2 queues, checksum {checksum}\n", "")


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    """A bad property value is shown with its place, and the file is still right."""
    path = tmp_path / "q.yaml"
    path.write_text("partitions:\n  - queues:\n      - name: a\n        properties: {priority.offset: x}\n")
    code, out, err = check(path)
    assert code == 0
    assert out.startswith(f"{path}: ok, 1 partition, 2 queues")
    assert err.startswith(f"warning: {path}:4:39: partitions[0].queues[0](root.a).properties.priority.offset: ")


def test_every_mistake(tmp_path: Path) -> None:
    """A wrong file gives every mistake on standard error, one per line, how to look up their codes, and exit code 1."""
    path = tmp_path / "q.yaml"
    path.write_text("partitions:\n  - queues:\n      - name: a.b\n        maxapplications: -1\n")
    code, out, err = check(path)
    assert (code, out) == (1, "")
    *mistakes, last = err.splitlines()
    assert [line.split(": ")[0] for line in mistakes] == [f"{path}:4:26", f"{path}:3:15"]
    code_of_first = mistakes[0].rpartition("(")[2].rstrip(")")
    assert last == f"ykactor rule {code_of_first} explains a code"


def test_many_mistakes(tmp_path: Path) -> None:
    """The terminal gets all of them; only answers and logs of the daemon have the first ones (CF-52)."""
    path = tmp_path / "q.yaml"
    path.write_text(TEXT + "".join(f"        bad{number}: 1\n" for number in range(30)))
    assert len(check(path)[2].splitlines()) == 31


def test_warnings_with_mistakes(tmp_path: Path) -> None:
    """Warnings are shown also when there are mistakes, before them and in the order of the text."""
    path = tmp_path / "q.yaml"
    path.write_text(TEXT + "        submitacl: 'al!ce'\n        properties: {priority.offset: x}\n        colour: red\n")
    code, out, err = check(path)
    assert (code, out) == (1, "")
    place = "partitions[0].queues[0](root.a)"
    assert [line.split(": found")[0].split(": unknown")[0] for line in err.splitlines()] == [
        f"warning: {path}:4:20: {place}.submitacl",
        f"warning: {path}:5:39: {place}.properties.priority.offset",
        f"{path}:6:9: {place}.colour",
        "ykactor rule P2 explains a code",
    ]


def test_schema() -> None:
    """The option --schema prints the JSON schema, and needs no file."""
    code, out, err = check("--schema")
    assert (code, out, err) == (0, (CONFIG / "queues.schema.json").read_text(), "")


def test_file_is_needed_otherwise() -> None:
    """The usage is shown, with exit code 2, without --schema and without a file."""
    code, out, err = check()
    assert (code, out) == (2, "")
    assert "Missing argument 'FILE'" in err


def test_several_files(tmp_path: Path) -> None:
    """Each file is judged, in the order of the arguments; the exit code is that of the worst one."""
    valid, wrong = tmp_path / "valid.yaml", tmp_path / "wrong.yaml"
    valid.write_text(TEXT)
    wrong.write_text(TEXT + "        colour: red\n")
    assert check(valid, valid)[0] == 0
    code, out, err = check(wrong, valid)
    assert (code, out) == (1, f"{valid}: ok, 1 partition, 2 queues, checksum {load(TEXT).checksum}\n")
    assert err.startswith(f"{wrong}:4:9: ")
    code, out, err = check(tmp_path / "none", wrong, valid, tmp_path)
    assert (code, out.count(": ok, ")) == (2, 1)
    assert [line for line in err.splitlines() if line.startswith("Error: ")] == [
        f"Error: Invalid value: File '{tmp_path}/none' does not exist.",
        f"Error: Invalid value: File '{tmp_path}' is a directory.",
    ]


def test_standard_input() -> None:
    """The argument - is standard input, also beside files."""
    code, out, _ = check("-", standard_input=TEXT)
    assert (code, out) == (0, f"standard input: ok, 1 partition, 2 queues, checksum {load(TEXT).checksum}\n")
    code, _, err = check("-", standard_input=TEXT + "        colour: red\n")
    assert (code, err.startswith("standard input:4:9: ")) == (1, True)


def test_pipes(tmp_path: Path) -> None:
    """A pipe is read, as from ``check-config <(helm template ...)``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=[TEXT])
    writer.start()
    assert check(pipe)[0] == 0
    writer.join()


def test_too_large() -> None:
    """An endless file is read only up to the maximum."""
    code, out, err = check("/dev/zero")
    assert (code, out) == (2, "")
    assert err == f"Error: /dev/zero: found more than {CONFIG_MAX} bytes, expected at most that\n"


def test_no_text(tmp_path: Path) -> None:
    """A file that is no text is one clear line and exit code 1."""
    path = tmp_path / "q.yaml"
    path.write_bytes(b"\xff\xfe")
    code, out, err = check(path)
    assert (code, out) == (1, "")
    assert err.startswith(f"{path}: not UTF-8 text")
    assert err.count("\n") == 1


def test_line_ends_count_for_the_checksum(tmp_path: Path) -> None:
    """CF-12: the checksum is that of the bytes in the file, also with carriage returns."""
    path, text = tmp_path / "q.yaml", TEXT.replace("\n", "\r\n")
    path.write_bytes(text.encode())
    assert load(text).checksum in check(path)[1]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples(path: Path) -> None:
    """Every sample in config/ is right and gives no warning."""
    code, _, err = check(path)
    assert (code, err) == (0, "")
