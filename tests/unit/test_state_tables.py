"""The output of the commands that print the state, in each format."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from gangs import gang, real, room, three
from msgspec import UNSET, structs
from test_view import view as view_of_reader
from world import app, ask, configure, decoded, foreign, hold, limit, make_world, node, queue, report, tree

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.parts import finished
from ykactor.surfaces.cli.story import present
from ykactor.surfaces.cli.views import apps, asks, daemon, listing, nodes, queues, users
from ykactor.surfaces.cli.views.listing import FORMATS, Printout, fields_of, formatted
from ykactor.surfaces.cli.views.view import Choice, View
from ykactor.wire.si import messages as si

NOW_NS = 400 * 10**9
GI = 2**30
VIEWS = {
    "queues": queues.VIEW,
    "apps": apps.VIEW,
    "asks": asks.VIEW,
    "nodes": nodes.VIEW,
    "users": users.VIEW,
    "priorities": asks.PRIORITIES,
    "partitions": daemon.PARTITIONS,
}
TEXT = tree(
    queue("prod", queue("web", p={"priority.offset": 5}), p={"priority.policy": "fence", "priority.offset": 100}),
    queue(
        "team",
        max={"vcore": 3000},
        guaranteed={"vcore": 2000},
        maxapplications=4,
        limits=[limit("bob", applications=2, vcore=2000)],
    ),
)


@pytest.fixture(scope="module")
def small() -> si.Snapshot:
    """Two nodes, of which one is drained; bob fills his queue, alice wants more than there is."""
    w = make_world(TEXT, [node("n1", vcore=4000, memory=8 * GI), node("n2", "CREATE_DRAIN", vcore=4000)])
    w.wait(100)
    w.given(foreign("f1", "n1", vcore=500), app("batch", "root.team", user="bob", groups=("dev",)))
    w.given(*(ask(f"b{number}", "batch", vcore=1000, memory=GI) for number in range(5)))
    w.wait(200)
    w.given(app("shop", "root.prod.web"), ask("s1", "shop", priority=7, requires="n9", vcore=9000), app("lost", "root.nowhere"))
    return snapshot(w.state())


def snapshot(*states: PartitionStatus | dict[str, Any]) -> si.Snapshot:
    away = si.RegisteredResourceManager(rm_id="rm-1", connected=False, since=150 * 10**9)
    return si.Snapshot(
        sequence=7,
        term="abc",
        partitions=[state if isinstance(state, PartitionStatus) else decoded(state) for state in states],
        resource_manager=away,
    )


def rows_of(view: View, snapshot: si.Snapshot, order: str = "", **chosen: tuple[str, ...]) -> Printout:
    first, *_ = view.orders
    return view.of(snapshot, Choice.of(**chosen), order or first, NOW_NS)


def printed(printout: Printout, output: str = "table") -> list[str]:
    return "\n".join(formatted(printout, output)).split("\n")


@pytest.mark.parametrize("name", VIEWS)
def test_tables(small: si.Snapshot, name: str) -> None:
    """Aligned columns that are never cut, numbers on the right, ``-`` for what there is not, the last column as long as it is."""
    lines = [click.unstyle(line) for line in printed(rows_of(VIEWS[name], small))]
    assert lines == TABLES[name].strip("\n").split("\n")


@pytest.fixture(scope="module")
def of_jobs() -> si.Snapshot:
    """A job with a name, one without, and an application that is none, of which two asks each wait."""
    w = make_world(TEXT, [node("n1", vcore=1000)])
    w.given(*(app(name, "root.team", user="bob") for name in ("job-1", "job-2", "app")))
    w.given(report("job-1", "train", tasks=2), report("job-2", "", tasks=2))
    w.given(*(ask(f"{name}.{number}", name, vcore=2000) for name in ("job-1", "job-2", "app") for number in range(2)))
    return snapshot(w.state())


@pytest.mark.parametrize("view", [apps.VIEW, asks.VIEW, asks.PRIORITIES])
def test_names_of_jobs(small: si.Snapshot, of_jobs: si.Snapshot, view: View) -> None:
    """The name of a job is shown behind the application; where none has one there is no column."""
    header, *rows = [click.unstyle(line).split() for line in printed(rows_of(view, of_jobs))]
    at = header.index("NAME")
    assert header[at - 1] == "APPLICATION"
    assert sorted((row[at - 1], row[at]) for row in rows) == [("app", "-"), ("job-1", "train"), ("job-2", "-")]
    assert "NAME" not in printed(rows_of(view, small))[0].split()


def test_the_name_of_one_job(of_jobs: si.Snapshot) -> None:
    """The name is a field of the application; what is pending of it does not repeat it."""
    lines = [click.unstyle(line).split() for line in printed(apps.described(of_jobs, "job-1", None, NOW_NS))]
    assert [line for line in lines if "train" in line] == [["Name", "train"]]


def test_the_reason_survives_the_name(of_jobs: si.Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason is whole on 80 columns, below its row if need be, whatever the length of the name."""
    monkeypatch.setattr(listing, "terminal_width", lambda: 80)
    (state,) = of_jobs.partitions
    job = state.applications["job-1"]
    assert job.job is not UNSET
    named = structs.replace(job, job=structs.replace(job.job, name="n" * 200))
    long = snapshot(structs.replace(state, applications=state.applications | {"job-1": named}))
    lines = [click.unstyle(line) for line in printed(rows_of(asks.VIEW, long))]
    assert max(map(len, lines)) <= 80
    assert sum("can never fit" in line for line in lines) == 3, lines


TABLES = {
    "queues": """
QUEUE          STATE   USED                GUARANTEED  MAX                 PENDING              RUNNING  QUEUE-PRIO
root           Active  vcore=2,memory=2Gi  -           vcore=8,memory=8Gi  vcore=12,memory=3Gi        1         100
root.prod      Active  0                   -           -                   vcore=9                    0         100
root.prod.web  Active  0                   -           -                   vcore=9                    0          12
root.team      Active  vcore=2,memory=2Gi  vcore=2     vcore=3             vcore=3,memory=3Gi       1/4           0
""",
    "apps": """
APPLICATION  STATE     QUEUE          USER   PRIORITY  USED                RUNNING  PENDING    AGE
batch        Running   root.team      bob           0  vcore=2,memory=2Gi        2        3     5m
shop         Accepted  root.prod.web  alice       100  0                         0        1  3m20s
lost         Rejected  root.nowhere   alice         -  -                         -        -      -
""",
    "asks": """
ASK  COUNT  APPLICATION  QUEUE          PRIORITY    AGE  EACH                REASON
s1       1  shop         root.prod.web       100  3m19s  vcore=9             its required node n9 is not registered
b2       3  batch        root.team             0  4m59s  vcore=1,memory=1Gi  wants 1, has 0 of 2 vcore in the limit of \
user bob in queue root.team
""".replace("\\\n", ""),
    "nodes": """
NODE  STATE        USE  TASKS  USED                FREE                  CAPACITY
n1    Schedulable  62%      3  vcore=2,memory=2Gi  vcore=1.5,memory=6Gi  vcore=4,memory=8Gi
n2    Drained       0%      0  0                   vcore=4               vcore=4
""",
    "users": """
USER   GROUP  QUEUE          USED                MAX      RUNNING
alice  -      root.prod.web  0                   -              0
bob    -      root.team      vcore=2,memory=2Gi  vcore=2      1/2
""",
    "priorities": """
ASK  COUNT  APPLICATION  QUEUE          PRIORITY  REQUEST  APP-PRIO  QUEUE-PRIO  OFFSETS                          FENCES
s1       1  shop         root.prod.web       100        7         7          12  root.prod.web=+5,root.prod=+100  root.prod
b2       3  batch        root.team             0        0         0           0  -                                -
""",
    "partitions": """
PARTITION  QUEUES  NODES  APPLICATIONS  RUNNING  PENDING  USED                CAPACITY            RESOURCE MANAGER
default         4    1/2             3        2        4  vcore=2,memory=2Gi  vcore=8,memory=8Gi  rm-1, away since 1970-01-01T00:02:30.000Z
""",  # noqa: E501
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_format_has_every_row(small: si.Snapshot, name: str) -> None:
    """JSON and YAML are the same list of objects; names are made of their fields; a wide table begins with the partition."""
    printout = rows_of(VIEWS[name], small)
    document = json.loads("\n".join(printed(printout, "json")))
    assert document == printout.document
    assert document == yaml.safe_load("\n".join(printed(printout, "yaml")))
    assert printed(printout, "name") == [VIEWS[name].name(row) for row in document]
    narrow, wide = printed(printout), printed(printout, "wide")
    assert len(document) == len(narrow) - 1 == len(wide) - 1
    assert all(line.split()[0] == "default" for line in wide[1:])
    assert set(narrow[0].split()) <= set(wide[0].split())


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("queues", "root.prod", {"OFFSET": "100", "FENCE": "yes", "SHARE": "0.00", "SORT": "fifo", "DYNAMIC": "no"}),
        ("apps", "batch", {"GROUPS": "dev"}),
        ("apps", "shop", {"PRIORITY": "100", "APP-PRIO": "7"}),
        ("asks", "b2", {"USER": "bob", "ASKS": "b2,b3,b4", "MAY-PREEMPT": "-"}),
        ("asks", "s1", {"PRIORITY": "100", "REQUEST": "7"}),
        ("nodes", "n1", {"FOREIGN": "vcore=0.5", "RESERVED-FOR": "-"}),
        ("priorities", "s1", {"USER": "alice"}),
        ("partitions", "1/2", {"RESERVED": "0", "WANTED": "vcore=12,memory=3Gi"}),
    ],
)
def test_wide_tables_have_more(small: si.Snapshot, name: str, row: str, expected: dict[str, str]) -> None:
    """Columns that few want to see."""
    header, *lines = [click.unstyle(line).split() for line in printed(rows_of(VIEWS[name], small), "wide")]
    (line,) = [line for line in lines if row in line]
    assert {column: line[header.index(column)] for column in expected} == expected


@pytest.mark.parametrize("name", VIEWS)
def test_keys_are_those_of_the_handbook(small: si.Snapshot, name: str) -> None:
    """Programs rely on the keys of JSON: they are documented, and no other is printed."""
    (line,) = re.findall(rf"^\| `{name}` \| (.+) \|$", KEYS, re.MULTILINE)
    documented = set(re.findall(r"`(\w+)`", line)) | {"partition"}
    found = [set(row) for row in rows_of(VIEWS[name], small).document]
    assert set().union(*found) <= documented
    assert documented - set().union(*found) <= SOMETIMES


CHAPTER = (Path(__file__).parents[2] / "ykactor" / "handbook" / "commands.md").read_text()
KEYS = CHAPTER.partition("## JSON of the verbs\n")[2].partition("\n## ")[0]
#: Of gangs, preemption, limits of groups, a lowered quota, and holds.
OF_THE_PAST = {"startTime", "waitedSeconds", "ranSeconds", "usedSeconds", "lostSeconds"}
SOMETIMES = {
    "held", "heldWith", "replacing", "leftOut", "lastAttempt", "nextAttempt", "group", "quotaPreemptionStartTime", "aboveMax",
    "job", "jobName",
    *OF_THE_PAST,
}  # fmt: skip


def test_rows_are_chosen(small: si.Snapshot) -> None:
    """A queue has those below it; names of partitions are compared without case; several values are "one of them"."""
    chosen = lambda view, **by: rows_of(view, small, **by).names  # noqa: E731
    assert chosen(queues.VIEW, queue=("Root.Prod",)) == ["root.prod", "root.prod.web"]
    assert chosen(queues.VIEW, queue=("root.pro",)) == []
    assert chosen(apps.VIEW, queue=("root.prod",)) == ["shop"]
    assert chosen(apps.VIEW, states=("Running", "Rejected")) == ["batch", "lost"]
    assert chosen(apps.VIEW, states=("Running",), user=("alice",)) == []
    assert chosen(asks.VIEW, user=("bob",)) == ["batch/b2"]
    assert chosen(users.VIEW, user=("Bob",)) == []
    assert chosen(nodes.VIEW, states=("Drained",), partition=("Default",)) == ["n2"]
    assert chosen(nodes.VIEW, partition=("other",)) == []


@pytest.mark.parametrize(
    ("view", "orders"),
    [
        (queues.VIEW, {"share": "root.team", "priority": "root"}),
        (apps.VIEW, {"age": "batch", "name": "batch", "priority": "shop", "pending": "batch"}),
        (asks.VIEW, {"priority": "shop/s1", "age": "batch/b2", "count": "batch/b2", "queue": "shop/s1"}),
        (nodes.VIEW, {"use": "n1", "tasks": "n1", "name": "n1"}),
        (asks.PRIORITIES, {"priority": "shop/s1", "request": "shop/s1", "queue": "shop/s1"}),
        (users.VIEW, {"name": "alice", "queue": "alice"}),
    ],
)
def test_orders(small: si.Snapshot, view: View, orders: dict[str, str]) -> None:
    """The first row in each order is that of the most, the oldest or the most important."""
    assert {order: rows_of(view, small, order).names[0] for order in orders} == orders


def test_without_rows_there_are_headers() -> None:
    """A daemon without nodes: a table has its headers, JSON an empty list, and there is no name."""
    empty = snapshot(make_world(tree()).state())
    assert printed(rows_of(nodes.VIEW, empty)) == ["NODE  STATE  USE  TASKS  USED  FREE  CAPACITY"]
    assert printed(rows_of(nodes.VIEW, empty), "json") == ["[]"]
    assert printed(rows_of(nodes.VIEW, empty), "yaml") == ["[]"]
    assert rows_of(nodes.VIEW, empty).names == []


def test_several_partitions() -> None:
    """Each row begins with its partition, also in a narrow table; an object of both has to be chosen by ``--partition``."""
    states = [make_world(tree(), [node("n1", vcore=1000)]).state() | {"name": name} for name in ("gpu", "cpu")]
    both = snapshot(*states)
    lines = printed(rows_of(nodes.VIEW, both))
    assert [line.split()[0] for line in lines] == ["PARTITION", "gpu", "cpu"]
    with pytest.raises(click.ClickException, match="node n1 in the partitions gpu and cpu, expected --partition"):
        nodes.described(both, "n1", None)
    assert nodes.described(both, "n1", "cpu").document["partition"] == "cpu"


def test_one_application(small: si.Snapshot) -> None:
    """The fields of an application, its tasks, and what is pending; of one that has ended what is known."""
    lines = [click.unstyle(line) for line in printed(apps.described(small, "batch", None, NOW_NS))]
    assert lines == BATCH.strip("\n").split("\n")
    document = apps.described(small, "batch", None, NOW_NS).document
    assert document["allocations"] == {"b0": "n1", "b1": "n1"}
    *lost, reason = [click.unstyle(line).split() for line in printed(apps.described(small, "lost", None, NOW_NS))]
    assert lost == [
        ["Application", "lost"],
        ["Partition", "default"],
        ["State", "Rejected"],
        ["Queue", "root.nowhere"],
        ["User", "alice"],
        ["Submitted", "1970-01-01T00:03:20.000Z"],
        ["Ended", "1970-01-01T00:03:20.000Z"],
    ]
    assert reason[:5] == ["Reason", "failed", "to", "place", "application"]
    with pytest.raises(click.ClickException, match="has no application none, or does not show it; ykactor apps lists them"):
        apps.described(small, "none", None, NOW_NS)


BATCH = """
Application  batch
Partition    default
State        Running
Queue        root.team
User         bob
Priority     0
Used         vcore=2,memory=2Gi
Running      2
Pending      3
Age          5m
Groups       dev
Submitted    1970-01-01T00:01:40.000Z
Running:
  TASK  NODE
  b0    n1
  b1    n1
Pending:
  ASK  COUNT  PRIORITY    AGE  EACH                REASON
  b2       3         0  4m59s  vcore=1,memory=1Gi  wants 1, has 0 of 2 vcore in the limit of user bob in queue root.team
"""


def test_an_application_that_is_held() -> None:
    """Also if nothing of it is pending, so that no reason says it."""
    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-1"))
    world.administer(hold("app-1"), at=60)
    lines = [click.unstyle(line) for line in printed(apps.described(snapshot(world.state()), "app-1", None, NOW_NS))]
    assert "Held by      ops since 1970-01-01T00:01:00.000Z" in lines
    assert "State        New,Held" in lines


def test_a_queue_that_is_held() -> None:
    """OP-2: with all queues below it and what is in them, but not what has ended; they keep their state and can be chosen."""
    world = make_world(tree(queue("a", queue("x"), queue("y")), queue("b")), [node("n1", vcore=1)])
    world.given(app("app-1", "root.a.x"), ask("t1", "app-1", vcore=1), app("app-2", "root.b"), app("app-3", "root.a"))
    world.administer(hold("root.a"), at=60)
    held = snapshot(world.state())
    assert rows_of(queues.VIEW, held, states=("Held",)).names == ["root.a", "root.a.x", "root.a.y"]
    (row,) = rows_of(apps.VIEW, held, states=("Held",)).document
    assert (row["applicationID"], row["state"], "held" in row) == ("app-1", "Starting", False)
    assert "now: application app-1 is Starting in root.a.x, held with queue root.a" in present("app-1", held.partitions[0])
    assert "Held with    root.a, by ops since 1970-01-01T00:01:00.000Z" in printed(apps.described(held, "app-1", None, NOW_NS))
    assert [line.split()[1] for line in printed(rows_of(queues.VIEW, held))[1:3]] == ["Active", "Active,Held"]
    assert "root.a" in rows_of(queues.VIEW, held, states=("Active",)).names


def test_tables_of_asks_begin_alike() -> None:
    """A user who knows one of the tables can read the other."""
    asked, explained = ([column.header for column in view.columns][:8] for view in (asks.VIEW, asks.PRIORITIES))
    assert asked == explained == ["ASK", "COUNT", "APPLICATION", "NAME", "QUEUE", "USER", "PRIORITY", "REQUEST"]


def test_a_user_of_several_queues_is_named_once() -> None:
    """Users and groups are named as the next command takes the name."""
    amounts = {"allocated": {}, "max": None, "maxApplications": 0, "applications": []}
    rows = [("user alice", "root.a"), ("user alice", "root.b"), ("group dev", "root.a")]
    limits = [{"whose": whose, "queue": path, **amounts} for whose, path in rows]
    state = {"name": "default", "queues": {}, "applications": {}, "limits": limits}
    assert rows_of(users.VIEW, snapshot(state)).names == ["dev", "alice"]


def test_a_placeholder_that_is_replaced() -> None:
    """The ask neither waits nor runs: it is shown with the placeholder whose release it waits for."""
    w = room(confirms=False)
    w.given(gang(), *three(), real("t1"))
    lines = printed(apps.described(snapshot(w.state()), "gang", None, NOW_NS))
    assert "Replacing a placeholder, when its release is confirmed:" in lines
    assert ["t1", "p1", "n1"] in [line.split() for line in lines]


def test_one_object_has_what_the_table_has(small: si.Snapshot) -> None:
    """A column of a table is a field where one object is described, unless it says there what a part says."""
    for view, one, name in (
        (nodes.VIEW, nodes.described(small, "n1", None), "Node"),
        (apps.VIEW, apps.described(small, "batch", None, NOW_NS), "Application"),
    ):
        fields = {click.unstyle(line).split("  ")[0] for line in printed(one)}
        labels = {column.header for column in fields_of(view.columns)}
        assert name in fields & labels
        assert labels - fields <= {"Reserved for", "Name"}  # nothing is reserved, nothing is a job


def test_one_node(small: si.Snapshot) -> None:
    """The fields of a node, the tasks of applications, and what is foreign."""
    lines = [click.unstyle(line) for line in printed(nodes.described(small, "n1", None))]
    assert (
        lines[-6:]
        == [
            "Tasks:",
            "  TASK  APPLICATION  QUEUE      USER",
            "  b0    batch        root.team  bob",
            "  b1    batch        root.team  bob",
            "Foreign:",
            "  ALLOCATION",
            "  f1",
        ][-6:]
    )
    assert [task["allocationKey"] for task in nodes.described(small, "n1", None).document["tasks"]] == ["b0", "b1"]


def test_the_numbers_of_a_daemon(small: si.Snapshot) -> None:
    """The objects of each kind are counted by state, and asks by the reasons for which most of them wait."""
    printout = daemon.described(small)
    lines = printed(printout)
    assert lines[:2] == ["Last event 7 of term abc", "Resource manager rm-1, away since 1970-01-01T00:02:30.000Z"]
    assert "Applications   1 Accepted, 1 Rejected, 1 Running" in lines
    assert lines[-3:] == [
        "  ASKS  REASON",
        "     3  wants 1, has 0 of 2 vcore in the limit of user bob in queue root.team",
        "     1  its required node n9 is not registered",
    ]
    assert [entry["asks"] for entry in printout.document["partitions"][0]["reasons"]] == [3, 1]


def test_what_a_limited_reader_sees(small: si.Snapshot) -> None:
    """Every command but that of the nodes works on the part of a state that such a reader gets, and says nothing of the rest."""
    part = snapshot(finished(view_of_reader("root.team").of_state(small.partitions[0])))
    with pytest.raises(click.ClickException, match="nodes are not shown to you"):
        rows_of(nodes.VIEW, part)
    for name in VIEWS.keys() - {"nodes"}:
        for output in FORMATS:
            text = "\n".join(printed(rows_of(VIEWS[name], part), output))
            assert not re.search(r"shop|alice|prod|s1", text), name
    assert rows_of(asks.VIEW, part).names == ["batch/b2"]
    assert rows_of(asks.PRIORITIES, part).document[0]["effectivePriority"] == 0
    assert "shop" not in "\n".join(printed(daemon.described(part)))
    assert printed(apps.described(part, "batch", None, NOW_NS))[0] == "Application  batch"


def above_max(count: int) -> si.Snapshot:
    """So many queues that use 2 of their max of 1."""
    paths = [f"q{number:02}" for number in range(count)]
    w = make_world(tree(*(queue(path, max={"vcore": 2}) for path in paths)), [node("n1", vcore=1000)])
    for path in paths:
        w.given(app(path, f"root.{path}"), ask(f"t-{path}", path, vcore=2))
    w.given(configure(tree(*(queue(path, max={"vcore": 1}) for path in paths))))
    return snapshot(w.state())


def test_queues_above_their_max_are_remarked() -> None:
    """PE-98: ``queues`` says of each why it stays there, of those that are chosen, and of many only of the first."""
    why = "1m vcore above its maximum; nothing is taken because quota preemption is off"
    found = rows_of(queues.VIEW, above_max(3), queue=("root.q01", "root.none"))
    assert [*found.notes][1:] == [f"root.q01: {why}"]
    assert found.document[0]["aboveMax"] == {"resource": {"vcore": 1}, "reason": why}
    many = rows_of(queues.VIEW, above_max(13)).notes
    assert [*many[9:]] == [f"root.q09: {why}", "and 3 more of the kind; -o json has all"]
