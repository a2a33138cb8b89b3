"""The dashboard and the alert rules that are shipped read metrics that there are."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from test_rest import ask, populated

from ykactor.client import follow

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "ykactor" / "handbook" / "rest.md"
CONFIG = ROOT / "config"
DASHBOARDS = sorted((CONFIG / "grafana").glob("*.json"))
SCRAPE, ALERTS = CONFIG / "prometheus" / "scrape.yaml", CONFIG / "prometheus" / "alerts.yaml"

#: A metric with what is asked of its labels: ``name``, or ``name{label="value",...}``.
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*+)\s*+(\{[^}]*\})?+(?!\s*\()")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
#: What a query has beside metrics: labels of groupings, ranges, texts, numbers, and words.
_LABELS = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "on"}
#: What Prometheus itself adds to each series, and its own metric.
_ADDED = {"job", "instance"}
_OWN = {"up"}
#: A series: its labels.
Series = list[dict[str, str]]


def selectors(query: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """The metrics of a query, each with its matchers."""
    rest = re.sub(r"\[[^\]]*\]", "", _LABELS.sub("", query))
    for name, braces in _SELECTOR.findall(rest):
        if name not in _WORDS:
            yield name, _MATCHER.findall(braces)


def grouped_by(query: str) -> set[str]:
    return {label.strip() for labels in _LABELS.findall(query) for label in labels.split(",")}


def dashboard_queries(path: Path) -> list[str]:
    panels = json.loads(path.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def mistakes(query: str, known: dict[str, Series]) -> Iterator[str]:
    """The parts of a query that cannot find anything."""
    found = list(selectors(query))
    if not found:
        yield f"{query}: names no metric"
    for name, matchers in found:
        if name in _OWN:
            continue
        if name not in known:
            yield f"{query}: there is no {name}"
        for label, operator, value in matchers:
            series = known.get(name, [])
            if label in _ADDED:
                continue
            if not any(label in labels for labels in series):
                yield f"{query}: {name} has no label {label}"
            if "$" not in value and operator == "=" and value not in {labels.get(label) for labels in series}:
                yield f"{query}: no {name} has {label} {value}"
    of_all = {label for name, _ in found for labels in known.get(name, []) for label in labels} | _ADDED
    yield from (f"{query}: groups by {label}, which no metric of it has" for label in grouped_by(query) - of_all)


def test_mistakes_are_found() -> None:
    """The checks that follow can fail: each kind of mistake is found."""
    known: dict[str, Series] = {"some": [{"state": "good"}], "some_bucket": [{"le": "1", "state": "good"}]}
    right = 'histogram_quantile(0.9, sum by (le) (rate(some_bucket{state="good",job="$job"}[5m]))) > 1 and on (state) some'
    assert list(mistakes(right, known)) == []
    assert list(mistakes("rate(other[5m])", known)) == ["rate(other[5m]): there is no other"]
    assert list(mistakes('some{kind="x"}', known)) == [
        'some{kind="x"}: some has no label kind',
        'some{kind="x"}: no some has kind x',
    ]
    assert list(mistakes('some{state="bad"}', known)) == ['some{state="bad"}: no some has state bad']
    assert list(mistakes("sum by (le) (some)", known)) == ["sum by (le) (some): groups by le, which no metric of it has"]
    assert list(mistakes("1 + 1", known)) == ["1 + 1: names no metric"]


async def test_every_query_reads_what_there_is(tmp_path: Path) -> None:
    """Names, labels, and values of labels, in a scrape of a daemon with a journal, a resource manager and a follower."""
    async with populated(tmp_path, "--state-dir", tmp_path / "state") as (daemon, _), follow(daemon.url):
        text = (await ask(daemon, "/ws/v1/metrics")).body.decode()
    known: dict[str, Series] = {"ykactor_tls_certificate_expiry_timestamp_seconds": [{}]}  # with TLS only: ``test_served_tls``
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            known.setdefault(sample.name, []).append(sample.labels)
    queries = [query for path in DASHBOARDS for query in dashboard_queries(path)] + [rule["expr"] for rule in alert_rules()]
    assert len(queries) > 50
    assert [mistake for query in queries for mistake in mistakes(query, known)] == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_panels_stand_beside_each_other(path: Path) -> None:
    """Panels do not overlap; each has its own id and says what it shows."""
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_alerts_say_what_is_wrong() -> None:
    """Each has a name of its own, how severe it is, and a sentence."""
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_the_scrape_configuration_reads_the_default_address() -> None:
    """And the alert rules beside it, whose queries, their head and the handbook name this job."""
    read = yaml.safe_load(SCRAPE.read_text())
    (job,) = read["scrape_configs"]
    assert (job["job_name"], job["metrics_path"]) == ("ykactor", "/ws/v1/metrics")
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9080"]}]
    assert read["rule_files"] == [ALERTS.name]
    matchers = [matcher for rule in alert_rules() for _, found in selectors(rule["expr"]) for matcher in found]
    assert {value for label, _, value in matchers if label == "job"} == {job["job_name"]}
    needing = {rule["alert"] for rule in alert_rules() if 'job="' in rule["expr"]}
    head = ALERTS.read_text().partition("groups:")[0]
    assert set(re.findall(r"Ykactor\w+", head)) == needing
    (pasted,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", CHAPTER.read_text(), re.DOTALL)
    assert yaml.safe_load(pasted)["scrape_configs"] == [{key: job[key] for key in ("job_name", "metrics_path", "static_configs")}]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_agrees() -> None:
    """Prometheus's own check of both files."""
    subprocess.run(["promtool", "check", "config", SCRAPE], check=True)
