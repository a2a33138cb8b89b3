"""Hashes of all that a set of scenarios brings about, to prove that a change of the code changes no decision.

    python tests/fingerprints.py record OLD.json             # before
    python tests/fingerprints.py compare OLD.json [--texts]  # after; exit code 1 if anything differs

Of each scenario: the decision log, the messages to the resource manager as they are sent, the events of the feed, and the final
state. The scenarios: the packaged sample, 200 generated sessions, and the recorded ones beside the checkout, which are played
without wakes. ``record`` writes the texts too (``OLD.json.texts/``), so that ``--texts`` can show the first classes that differ.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec import structs

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "actors")]

from generate import generate  # noqa: E402
from simulated import simulate_with_actors  # noqa: E402
from test_same_bytes import RECORDINGS, preempting, together  # noqa: E402

from ykactor.core.planner.planner import Budget  # noqa: E402
from ykactor.sim import simulator  # noqa: E402
from ykactor.wire import scenario  # noqa: E402
from ykactor.wire.decision_log import decision_log  # noqa: E402
from ykactor.wire.si.events import events  # noqa: E402
from ykactor.wire.si.responses import responses  # noqa: E402

_JSON = msgspec.json.Encoder(order="deterministic")


def names() -> list[str]:
    """Every scenario, by the name that ``texts_of`` knows."""
    generated = [f"{kind}-{number}" for kind, count in (("plain", 110), ("busy", 20), ("small", 20)) for number in range(count)]
    generated += [f"preempting-{number}-{how}" for number in range(15) for how in ("confirmed", "silent")]
    generated += [f"together-{number}" for number in range(20)]
    recorded = [str(path.relative_to(RECORDINGS)) for path in sorted(RECORDINGS.glob("*/*/scenario.json"))]
    return ["sample", *generated, *recorded]


def story_of(name: str) -> tuple[scenario.Scenario, Budget]:
    """The scenario, and the budget of its cycles."""
    kind, *rest = name.split("-")
    budget = simulator.CYCLE_BUDGET
    if name == "sample":
        return scenario.load(Path(simulator.__file__).parent / "sample.yaml"), budget
    if name.endswith(".json"):
        return structs.replace(scenario.load(RECORDINGS / name), wakes=False), budget
    number = int(rest[0])
    match kind:
        case "plain":
            sizes = {"queues": 3 + number % 20, "nodes": 2 + number % 9, "applications": 4 + number % 12}
            return generate(5000 + number, **sizes, asks=40 + number, reloads=number % 3), budget
        case "busy":
            return generate(6000 + number, queues=12, nodes=20, applications=30, asks=500, churn=1.0, reloads=2), budget
        case "small":
            return generate(7000 + number, nodes=12, applications=10, asks=100, churn=1.0), Budget(2, 5)
        case "preempting":
            return preempting(number, confirms=rest[1] == "confirmed"), budget
    return together(number), budget


def texts_of(name: str) -> dict[str, str]:
    """The outcome of a scenario, as classes of JSON."""
    messages: dict[str, list[object]] = {}  # by partition: what partitions do at the same time has no order
    records: dict[str, list[object]] = {}
    add = simulator.Record.add

    def note(record: object, partition: str, facts: list) -> None:
        if record.is_open:  # type: ignore[attr-defined]
            messages.setdefault(partition, []).extend(responses(facts, partition))
            for fact in facts:
                known = records.setdefault(partition, [])
                known.extend(events(fact, partition, len(known) + 1))
        add(record, partition, facts)  # type: ignore[arg-type]

    simulator.Record.add = note  # type: ignore[assignment, method-assign]
    try:
        outcome = simulate_with_actors(*story_of(name))
    finally:
        simulator.Record.add = add  # type: ignore[method-assign]
    return {
        "decisions": decision_log(outcome.facts).decode(),
        "messages": _lines(messages),
        "events": _lines(records),
        "final": _JSON.encode([outcome.final, outcome.waiting, outcome.refused]).decode(),
    }


def _lines(by_partition: dict[str, list[object]]) -> str:
    return "".join(_JSON.encode_lines(by_partition[name]).decode() for name in sorted(by_partition))


def _all() -> Iterator[tuple[str, dict[str, str]]]:
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        yield from zip(names(), pool.map(texts_of, names(), chunksize=4), strict=True)


def _hashes(texts: dict[str, str]) -> dict[str, str]:
    return {what: hashlib.sha256(text.encode()).hexdigest() for what, text in texts.items()}


def _first_difference(old: str, new: str) -> str:
    pairs = zip_longest(old.splitlines(), new.splitlines())
    return next((f"    - {before}\n    + {after}" for before, after in pairs if before != after), "")


def record(path: Path) -> int:
    """Write the hashes and the texts of today's code."""
    folder = Path(f"{path}.texts")
    folder.mkdir(exist_ok=True)
    found = {}
    for name, texts in _all():
        found[name] = _hashes(texts)
        (folder / f"{name.replace('/', '_')}.json").write_text(json.dumps(texts))
    path.write_text(json.dumps(found, indent=1))
    print(f"{len(found)} scenarios recorded in {path}")
    return 0


def compare(path: Path, *, shows_texts: bool) -> int:
    """Compare today's code with what was recorded."""
    old, differences, count = json.loads(path.read_text()), 0, 0
    for name, texts in _all():
        count += 1
        for what, found in _hashes(texts).items():
            if old.get(name, {}).get(what) != found:
                differences += 1
                print(f"{name}: {what} differs")
                if shows_texts:
                    before = json.loads((Path(f"{path}.texts") / f"{name.replace('/', '_')}.json").read_text())
                    print(_first_difference(before[what], texts[what]))
    print(f"{count} scenarios, {4 * count} hashes compared, {differences} differ")
    return bool(differences)


if __name__ == "__main__":
    if sys.argv[1] == "record":
        sys.exit(record(Path(sys.argv[2])))
    sys.exit(compare(Path(sys.argv[2]), shows_texts="--texts" in sys.argv))
