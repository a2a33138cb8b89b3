from pathlib import Path

import pytest
from click.testing import CliRunner
from queuetexts import SAMPLES

from ykactor.surfaces.cli.convert import command
from ykactor.wire.queuefile.load import DEFAULT_TEXT, load

TEXT = "partitions:\n  - queues:\n      - name: a\n\n        submitacl: '*'\n"


def convert(*arguments: Path | str, standard_input: str = "") -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, ["configmap", *map(str, arguments)], input=standard_input)
    return result.exit_code, result.stdout, result.stderr


def test_a_queue_file_becomes_a_config_map() -> None:
    """The queue file is a block that people can read and edit, under the names that YuniKorn looks for."""
    manifest = (
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "yunikorn-configs"\n  namespace: "yunikorn"\ndata:\n'
        "  queues.yaml: |\n    partitions:\n      - queues:\n          - name: a\n\n            submitacl: '*'\n"
    )
    assert convert("-", standard_input=TEXT) == (0, manifest, "")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples(path: Path) -> None:
    """CF-12: comments and all; the checksum is that of the sample."""
    code, out, err = convert(path, "--name", "my.queues", "--namespace", "ns-1")
    assert (code, err) == (0, "")
    assert load(out).checksum == load(path.read_text()).checksum
    assert '  name: "my.queues"\n  namespace: "ns-1"\n' in out


def test_a_config_map_again() -> None:
    """CF-85: a manifest is taken apart first; what is left out is said."""
    once = convert("-", standard_input=TEXT)[1]
    code, out, err = convert("-", standard_input=once + "  log.level: INFO\n")
    assert (code, out) == (0, once)
    assert "ignored: log.level" in err


def test_no_queue_file() -> None:
    """CF-1: the built-in configuration is written out."""
    assert load(convert("-")[1]).checksum == load(DEFAULT_TEXT).checksum


def test_mistakes_write_nothing() -> None:
    """A wrong queue file gives its mistakes and exit code 1."""
    code, out, err = convert("-", standard_input=TEXT + "        colour: red\n")
    assert (code, out) == (1, "")
    assert "standard input:6:9: " in err
    assert err.endswith("ykactor rule P2 explains a code\n")


@pytest.mark.parametrize("name", ["", "A", 'a"b', "a\nb", "-a", "a" * 254])
def test_names(name: str) -> None:
    """A name that Kubernetes would refuse is a wrong command line."""
    code, out, err = convert("-", "--name", name, standard_input=TEXT)
    assert (code, out) == (2, "")
    assert "expected lower case letters" in err
