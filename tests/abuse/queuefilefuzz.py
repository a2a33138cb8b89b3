"""Mutants of queue files: each is loaded or refused with ``ConfigError``; those that are right are applied to a daemon."""

from __future__ import annotations

import random
from collections import Counter
from time import thread_time

import queuetexts
from costs import Memory, loop_s
from target import Target

from ykactor.client import RequestRefused, connect
from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, load
from ykactor.wire.si import messages as si

#: A file takes no longer than a loop of so many steps, about 1 s of CPU time; and so much memory for each of its bytes.
_FILE_MAX_STEPS = 60_000_000
_BYTES_EACH = 4000
_VALUES = (
    *("0", "-1", "1", "9223372036854775807", "9223372036854775808", "1e999", ".nan", "null", "true", "[]", "{}", "'*'", "''"),
    *(
        "root",
        "root.a.b",
        "a" * 65,
        "a" * 5000,
        "&a [*a]",
        "*a",
        "!!binary x",
        "{{{",
        "(((((a*)*)*)*)*)*b",
        "500m",
        "9Ei",
        "\\x00",
    ),
)
_LINES = (
    "partitions:",
    "  - name: default",
    "    queues:",
    "      - name: root",
    "limits: [{limit: x, users: ['*'], maxapplications: 1}]",
)


def _texts() -> list[str]:
    """The samples, and the texts for tests."""
    kept = [value for value in vars(queuetexts).values() if isinstance(value, str) and value.startswith("partitions:")]
    return [DEFAULT_TEXT, *(path.read_text() for path in queuetexts.SAMPLES), *kept, queuetexts.queue_with("x: 1")]


def mutant(rng: random.Random, texts: list[str]) -> str:
    """Some lines of one text are changed."""
    lines = rng.choice(texts).splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        place = rng.randrange(len(lines) or 1)
        line = lines[place] if lines else ""
        match rng.randrange(7):
            case 0:
                lines[place : place + 1] = [line] * rng.choice((2, 3, 200))
            case 1:
                lines[place : place + 1] = []
            case 2:
                lines[place : place + 1] = [" " * rng.choice((1, 2, 4)) + line]
            case 3:
                lines[place : place + 1] = [line.partition(":")[0] + ": " + rng.choice(_VALUES)]
            case 4:
                other = rng.choice(texts).splitlines()
                lines[place:place] = other[: rng.randrange(len(other) + 1)]
            case 5:
                start = rng.randrange(len(line) + 1)
                lines[place : place + 1] = [line[:start] + rng.choice(_VALUES) + line[start:]]
            case _:
                lines[place:place] = [line[: len(line) - len(line.lstrip())] + rng.choice(_LINES)]
    return "\n".join(lines) + "\n"


def load_mutants(count: int, seed: int) -> str:
    """Load mutants, each of which takes little time and memory. Returns figures."""
    rng, texts = random.Random(seed), _texts()
    codes: Counter[str] = Counter()
    longest_s = 0.0
    for number in range(count):
        text = mutant(rng, texts)
        began_s = thread_time()
        codes[_outcome(text, number)] += 1
        longest_s = max(longest_s, thread_time() - began_s)
    assert longest_s < loop_s(_FILE_MAX_STEPS)
    assert codes["right"]
    return f"{count} queue files, the longest in {1e3 * longest_s:.0f} ms: {codes['right']} are right"


def _outcome(text: str, number: int) -> str:
    """The code of the first mistake; every 50th text is loaded with its memory counted, which takes longer."""
    if number % 50:
        return _loaded(text)
    with Memory() as memory:
        outcome = _loaded(text)
    assert memory.peak < 2**20 + _BYTES_EACH * len(text), f"loading {len(text)} bytes took {memory.peak} bytes"
    return outcome


def _loaded(text: str) -> str:
    try:
        load(text, "mutant.yaml")
    except ConfigError as error:
        return error.mistakes[0].code
    return "right"


async def apply_mutants(abused: Target, count: int, seed: int) -> str:
    """Right ones are applied, others change nothing; at the end the first configuration is in force again. Returns figures."""
    rng, texts = random.Random(seed), _texts()
    outcomes: Counter[str] = Counter()
    async with connect(abused.daemon.url, rm_id="rm-1", resume_from="now") as rm:
        before = await abused.state_hash()
        for _ in range(count):
            try:
                await rm.request(si.UpdateConfigurationRequest(config=mutant(rng, texts)))
            except RequestRefused as refused:
                assert refused.code == "CONFIG_REFUSED", refused  # noqa: PT017 (it may be taken)
                assert await abused.state_hash() == before
                outcomes["refused"] += 1
            else:
                outcomes["applied"] += 1
                before = await abused.state_hash()
        await rm.request(si.UpdateConfigurationRequest(config=DEFAULT_TEXT))
    assert min(outcomes["applied"], outcomes["refused"]) > 0
    return f"{outcomes['applied']} queue files are applied, {outcomes['refused']} refused without effect"
