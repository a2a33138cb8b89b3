"""Access to the REST API: every route, every role, every way to show who one is; and what limited readers see."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from accessfiles import access_of
from callers import IDENTITIES, ROLES, SECRETS, WAYS, control_of, credentials, tokens_of
from restdaemon import Rest, application, asks, node, rest_daemon

from ykactor.access.access import Access
from ykactor.access.credentials import Credentials
from ykactor.access.model import Role
from ykactor.core.messages.facts import Audited
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.http.app import Route
from ykactor.surfaces.http.routes import Services, routes
from ykactor.surfaces.http.session import Websockets
from ykactor.surfaces.net import transports
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: ours
            resources: {max: {vcore: 8}}
            queues: [{name: a, properties: {preemption.delay: 9s}, limits: [{limit: l, users: [alice], maxapplications: 9}]}]
          - {name: theirs, resources: {max: {vcore: 2}}, limits: [{limit: l, users: [zoe], maxapplications: 9}]}
  - name: hidden
    queues: [{name: root, submitacl: "*", queues: [{name: x}]}]
"""
READERS = {
    "reader": "roles: [reader]",
    "of-queues": "roles: [reader], queues: [root.ours], partitions: [default]",
    "of-partitions": "roles: [reader], partitions: [default]",
}


def all_routes() -> list[Route]:
    """The routes of a daemon that does not run."""
    return routes(Services(FakeGateway(), None, None, Websockets([]), ""))  # type: ignore[arg-type]


class FakeGateway:
    health = None

    def now_ns(self) -> int:
        return 0


def path_of(route: Route) -> str:
    """A path of the route that exists in ``CONFIG``, as long as the rest is let in."""
    names = {"partition": "default", "queue": "root.ours.a", "app": "app", "ask": "app-0", "state": "active", "node": "n1"}
    return route.path.format(**names, user="alice", group="dev", kind="application", id="app", job="app")


class Door:
    """Lets an identity in by one way of proof."""

    def __init__(self, name: str, way: str) -> None:
        self._control = control_of()
        self._shown = credentials(name, way)

    def admit(self, role: Role, _shown: Credentials, origin: str) -> Caller:
        return self._control.admit(role, self._shown, origin)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", IDENTITIES)
async def test_every_route_needs_its_role(name: str, way: str) -> None:
    """SE-62: who has the role may read, by every way of proof; others get 403; what needs no proof is for everybody."""
    async with rest_daemon(CONFIG, admit=Door(name, way).admit) as rest:
        for route in all_routes():
            method = "HEAD" if route.path.endswith("stream") else route.method
            answer = await rest.ask(path_of(route), method, b"", Origin=f"http://127.0.0.1:{rest.port}")  # only pages log in
            if route.role is None or not ROLES[name].isdisjoint((route.role, route.other_role)):
                assert answer.status in (200, 301, 404), route.path
            else:
                assert answer.status == 403, route.path


async def test_nobody_learns_nothing() -> None:
    """SE-60: without a proof, with a wrong one, with two: the same answer on each route, and one audit of each kind."""
    refusals = ({}, {"Authorization": "Bearer yk_wrong"}, {"Authorization": "Basic eDp5"})
    async with rest_daemon(CONFIG, admit=control_of().admit) as rest:
        found = set()
        for route in all_routes():
            if route.role is None:
                continue
            for headers in refusals:
                answer = await rest.ask(path_of(route), route.method, b"", **headers)
                assert answer.headers["www-authenticate"] == "Bearer"
                found.add((answer.status, answer.body))
        assert [status for status, _ in found] == [401]
        assert (await rest.ask("/readyz")).status == 200
        token = await rest.ask("/ws/v1/clusters", Authorization=f"Bearer {SECRETS['reader']}")
        assert token.status == 200


async def test_refusals_are_audited() -> None:
    """SE-74: who is nobody, who lacks the role, and who may not see this."""
    async with rest_daemon(CONFIG, admit=control_of(readers(rm=IDENTITIES["rm"])).admit) as rest:
        heard: list[Audited] = []
        rest.daemon.audit._tell = hear(heard)  # type: ignore[method-assign]
        await rest.ask("/ws/v1/clusters")
        await rest.ask("/ws/v1/clusters", **bearer("rm"))
        await rest.ask("/ws/v1/config", **bearer("of-queues"))
        with trio.fail_after(180):
            while len(heard) < 3:
                await trio.lowlevel.checkpoint()
        assert [(fact.who, fact.target) for fact in heard] == [
            ("", "/ws/v1/clusters"),
            ("rm", "/ws/v1/clusters"),
            ("of-queues", "/ws/v1/config"),
        ]


def hear(heard: list[Audited]) -> Any:
    async def tell(fact: Audited) -> None:
        heard.append(fact)

    return tell


def secret_of(name: str) -> str:
    return f"yk_{name:_>43}"


def readers(**more: str) -> Access:
    """An access file with the readers and more identities, each shown by a token."""
    identities = READERS | more
    text = "\n".join(["identities:", *(f"  - {{name: {name}, {keys}}}" for name, keys in identities.items()), ""])
    return access_of(text, {"tokens.json": tokens_of({name: secret_of(name) for name in identities})})


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret_of(name)}"}


def record_of(application_id: str) -> si.TaskRecord:
    """The record of its first task."""
    key = f"{application_id}-0"
    known = {"exit_code": 3, "start_time": 5_000_001, "message": "secret"}
    return si.TaskRecord(application_id=application_id, allocation_key=key, state="Failed", **known)


@asynccontextmanager
async def limited() -> AsyncIterator[Rest]:
    """Two queues and two partitions, with one application in each."""
    async with rest_daemon(CONFIG, admit=control_of(readers()).admit) as rest:
        await rest.submit(
            node("n1"),
            application("mine", "root.ours.a", "alice", "dev"),
            asks("mine", 4),
            application("secret", "root.theirs", "zoe", "secretgroup"),
            asks("secret", 3),
            si.ApplicationRequest(
                jobs=[si.JobReport(application_id=name, tasks=5, failed=1) for name in ("mine", "secret")],
                records=[record_of("mine"), record_of("secret")],
            ),
        )
        yield rest


async def test_a_reader_of_queues_sees_its_queues() -> None:
    """SE-88: below a bare root; headroom as if the highest in view were the root; reasons without others; times in ms."""
    async with limited() as rest:

        async def read(path: str) -> Any:
            answer = await rest.ask(f"/ws/v1/{path}", **bearer("of-queues"))
            assert answer.status == 200, answer.body
            return answer.content

        root = await read("partition/default/queues")
        assert root.pop("children") == [ours := (await read("partition/default/queue/root.ours?subtree"))]
        assert root == {"queuename": "root", "status": "Active", "partition": "default", "isLeaf": False, "isManaged": True,
                        "childNames": ["root.ours"]}  # fmt: skip
        assert ("parent" in ours, ours["childNames"]) == (False, ["root.ours.a"])
        assert ours["children"][0]["properties"] == {"preemption.delay": "9s"}
        assert ours["headroom"]["vcore"] == 8000 - ours["allocatedResource"]["vcore"]  # not what the nodes leave
        (partition,) = await read("partitions")
        assert partition.keys() == {
            *("applications", "capacity", "clusterId", "name", "nodeSortingPolicy", "state", "totalContainers"),
        }  # no number and no false of what is not shown
        assert (partition["name"], partition["capacity"], partition["nodeSortingPolicy"]) == ("default", {}, {})
        assert partition["applications"] == {"Running": 1, "total": 1}
        (mine,) = await read("partition/default/applications/active")
        assert mine["applicationID"] == "mine"
        told = {(ask["code"], ask["reason"]) for ask in await read("partition/default/application/mine/pending")}
        assert told == {("QUOTA", "wants 1 vcore, more than is left in the cluster")}
        assert mine["submissionTime"] % 10**6 == 0
        (record,) = await read("partition/default/application/mine/records")
        assert (record["allocationKey"], record["user"], record["startTime"]) == ("mine-0", "alice", 5 * 10**6)
        (job,) = (await rest.ask("/v1/jobs", **bearer("of-queues"))).content
        assert (job["jobID"], job["tasks"], job["failed"]) == ("mine", 5, 1)
        mine = (await rest.ask("/v1/jobs/mine", **bearer("of-queues"))).content
        ended, *running = mine["attempts"]
        assert (ended["state"], ended["startTime"], ended["queueName"]) == ("Failed", 5 * 10**6, "root.ours.a")
        assert "reason" not in ended
        assert {attempt["state"] for attempt in running} <= {"Running"}
        (user,) = await read("partition/default/usage/users")
        assert user["userName"] == "alice"
        assert "resourceUsage" not in user["queues"]  # of root
        assert [cluster["partition"] for cluster in await read("clusters")] == ["default"]


@pytest.mark.parametrize("path", [
    "partition/default/queue/root", "partition/default/queue/root.theirs", "partition/default/queue/root.theirs/applications",
    "partition/default/queue/root.theirs/applications/active", "partition/default/queue/root.theirs/application/secret",
    "partition/default/application/secret", "partition/default/application/secret/pending",
    "partition/default/application/secret/records",
    "partition/default/usage/user/zoe", "partition/hidden/queues",
])  # fmt: skip
async def test_what_is_hidden_is_as_if_it_did_not_exist(hidden: Rest, path: str) -> None:
    """SE-26: 404 with the same text as for what is not there."""
    answer = await hidden.ask(f"/ws/v1/{path}", **bearer("of-queues"))
    nothing = await hidden.ask(
        f"/ws/v1/{path.replace('root.theirs', 'root.no').replace('secret', 'no').replace('zoe', 'no').replace('hidden', 'no')}"
        if path != "partition/default/queue/root"
        else "/ws/v1/partition/default/queue/root.no",
        **bearer("of-queues"),
    )
    assert (answer.status, answer.body) == (404, nothing.body)


async def test_explanations_for_a_reader_of_queues(hidden: Rest) -> None:
    """SE-84: queues in view with what is pending there, and only that a queue out of view is short; nothing else is there."""
    found = (await hidden.ask("/v1/explain/queue/root.ours", **bearer("of-queues"))).content["queue"]
    assert found["status"]["headroom"]["vcore"] == 8000 - found["status"]["allocated"]["vcore"]
    assert "share" not in found["status"]
    assert found["oldest"]["creationTime"] % 10**6 == 0
    assert found["short"] == {"queueName": "root", "whose": "", "resource": "vcore", "asks": found["pending"]["QUOTA"]}
    assert [share["user"] for share in found["users"]] == ["alice"]
    statuses = {"queue/root": 404, "queue/root.theirs": 404, "application/secret": 404, "ask/secret-0": 404, "node/n1": 403}
    for path, status in statuses.items():
        answer = await hidden.ask(f"/v1/explain/{path}", **bearer("of-queues"))
        assert answer.status == status
        if status == 404:
            nothing = await hidden.ask(f"/v1/explain/{path}x", **bearer("of-queues"))
            assert nothing.body.replace(b"x", b"") == answer.body.replace(b"x", b"")


@pytest.fixture
async def hidden() -> AsyncIterator[Rest]:
    async with limited() as rest:
        yield rest


async def test_the_rest_is_for_those_who_see_all() -> None:
    """SE-88: nodes for who is not limited to queues; events, history, configuration, health, dumps for who is not at all.

    New work is tried by those who submit.
    """
    nodes = {"nodes", "node/{node}", "placementrules", "node-utilizations", "node-attributes", "history"}
    everything = {"batch", "stream", "apps", "containers", "config", "healthcheck", "stack", "fullstatedump", "metrics"}
    async with limited() as rest:
        for route in all_routes():
            last = "node/{node}" if "/node/" in route.path else route.path.rpartition("/")[2]
            is_dump = route.path.startswith("/ws") and last in ("stack", "fullstatedump")  # leads there
            for name in READERS:
                expected = (last in nodes and name == "of-queues") or (last in everything and name != "reader" and not is_dump)
                expected = expected or route.role is Role.RM
                method = "HEAD" if route.path.endswith("stream") else route.method
                answer = await rest.ask(path_of(route), method, b"", **bearer(name), Origin=f"http://127.0.0.1:{rest.port}")
                assert (answer.status == 403) is expected, (route.path, name, answer.body)


async def test_nothing_of_others_is_in_any_answer() -> None:
    """SE-88: no name of another queue, user, group, application or partition, on any route."""
    async with limited() as rest:
        for route in all_routes():
            method = "HEAD" if route.path.endswith("stream") else route.method
            found = (await rest.ask(path_of(route), method, b"", **bearer("of-queues"))).body
            for secret in (b"theirs", b"zoe", b"secret", b"hidden"):
                assert secret not in found, route.path


async def test_pages_are_not_mixed_up() -> None:
    """The page of one reader does not come from what was made for another one."""
    async with limited() as rest:
        found = [await rest.ask("/ws/v1/partition/default/queues", **bearer(name)) for name in (*READERS, *READERS)]
        children = [len(answer.content["childNames"]) for answer in found]
        assert children == [2, 1, 2] * 2
        for path in "partitions", "scheduler/node-utilizations":
            rest.daemon.outboxes.renew("rm-of-all", JSON)
            asked = [await rest.ask(f"/ws/v1/{path}", **bearer(name)) for name in ("of-partitions", "reader", "of-partitions")]
            ids = [{each["clusterId"] for each in answer.content} for answer in asked]
            assert ids == [{""}, {"rm-of-all"}, {""}]
            rest.daemon.outboxes.renew("another", JSON)
            assert {each["clusterId"] for each in (await rest.ask(f"/ws/v1/{path}", **bearer("reader"))).content} == {"another"}


@pytest.mark.parametrize(("headers", "status"), [
    ({}, 200),
    ({"Host": "127.0.0.1:9080"}, 200),
    ({"Host": "[::1]:9080"}, 200),
    ({"Host": "LocalHost:1"}, 200),
    ({"Host": "our.name"}, 200),
    ({"Host": "attacker.example"}, 403),  # its name leads here
    ({"Host": "user@localhost"}, 400),
    ({"Origin": "http://localhost:4200"}, 200),  # a UI in development
    ({"Origin": "https://attacker.example"}, 403),
    ({"Origin": "null"}, 403),  # a local file, or a frame in a sandbox
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "none"}, 200),  # typed by somebody
    ({"Sec-Fetch-Site": "cross-site"}, 403),  # a picture or a script of another page, without an Origin
    ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:4200"}, 403),
])  # fmt: skip
async def test_web_pages_of_others_read_nothing(open_to_all: Rest, headers: dict[str, str], status: int) -> None:
    """SE-89: where no proof is needed, who is asked must be named as ours, and so must the page that asks."""
    answer = await open_to_all.ask("/ws/v1/clusters", **headers)
    assert answer.status == status
    assert (await open_to_all.ask("/ws/v1/validate-conf", "POST", b"", **headers)).status == status


async def test_what_only_reads_metrics_and_health_has_any_name(open_to_all: Rest) -> None:
    """SE-89: probes and Prometheus ask by the name of a service; web pages of other hosts are refused there too."""
    named = {"Host": "yunikorn-service:9080"}
    any_name = {"/ws/v1/metrics", "/ws/v1/scheduler/healthcheck", "/livez", "/readyz", "/openapi.json"}
    for route in all_routes():
        if "stream" not in route.path:
            status = (await open_to_all.ask(path_of(route), route.method, b"", **named)).status
            assert (status == 403) == (route.path not in any_name), route.path
    for path in ("/ws/v1/metrics", "/ws/v1/scheduler/healthcheck"):
        for foreign in ({"Origin": "https://attacker.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await open_to_all.ask(path, **named, **foreign)).status == 403


@pytest.fixture
async def open_to_all() -> AsyncIterator[Rest]:
    async with rest_daemon(CONFIG, host_names=["our.name"]) as rest:
        yield rest


async def test_pages_with_a_token_may_be_anywhere() -> None:
    """SE-89: where a proof is needed, a browser sends none by itself."""
    async with limited() as rest:
        shown = {**bearer("reader"), "Host": "any.example", "Origin": "https://grafana.example"}
        answer = await rest.ask("/ws/v1/clusters", **shown)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")


async def test_pages_with_a_certificate_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-89: a browser shows a certificate by itself, for a page of any host; who shows nothing is told nothing else."""
    async with rest_daemon(CONFIG, admit=control_of().admit) as rest:
        foreign = {"Host": "any.example", "Origin": "https://grafana.example"}
        assert (await rest.ask("/ws/v1/clusters", **foreign)).status == 401
        monkeypatch.setattr(transports, "Credentials", lambda: credentials("reader", "certificate"))
        for headers, status in (
            ({"Host": "any.example"}, 200),  # the certificate of the daemon has the name
            ({"Host": "any.example", "Origin": "https://any.example"}, 200),
            (foreign, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Authorization": f"Bearer {SECRETS['reader']}", **foreign}, 200),
        ):
            assert (await rest.ask("/ws/v1/clusters", **headers)).status == status, headers


async def test_no_answer_is_kept_or_guessed_at(tmp_path: Path) -> None:
    """SE-89: nobody keeps an answer, and a browser takes it for nothing but what it is said to be; files are asked for again."""
    (tmp_path / "index.html").write_text("another")
    for web_root in (None, tmp_path):
        async with rest_daemon(CONFIG, web_root=web_root) as rest:
            for path in (*(path_of(route) for route in all_routes() if "stream" not in route.path), "/none", "/"):
                for method in ("GET", "HEAD", "OPTIONS", "PUT"):
                    headers = (await rest.ask(path, method)).headers
                    assert headers["x-content-type-options"] == "nosniff", (method, path)
                    is_file = path == "/" and method in ("GET", "HEAD")
                    assert headers["cache-control"] == ("no-cache" if is_file else "no-store"), (method, path)
            for wrong in (b"GET / HTTP/9\r\n\r\n", b"x" * 20_000 + b"\r\n\r\n"):
                head = (await rest.send(wrong)).lower()
                assert b"\r\ncache-control: no-store\r\n" in head
                assert b"\r\nx-content-type-options: nosniff\r\n" in head


async def test_files_of_a_web_ui(tmp_path: Path) -> None:
    """``--web-root``: any file below it, on the origin of the API; never one outside, by no spelling and no link."""
    root = tmp_path / "root"
    (root / "assets").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (root / "index.html").write_text("<html>")
    (root / "assets" / "envconfig.json").write_text("{}")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("secret")
    (root / ".env").write_text("secret")
    (root / "assets" / "dot").symlink_to(root / ".env")
    async with rest_daemon(CONFIG, admit=control_of().admit, web_root=root) as rest:
        page = await rest.ask("/")
        assert (page.status, page.body, page.headers["content-type"]) == (200, b"<html>", "text/html; charset=utf-8")
        assert (await rest.ask("/assets/envconfig.json")).content == {}
        shown = {"Authorization": f"Bearer {SECRETS['reader']}"}
        for path in ("/link", "/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "/..%5csecret", "//etc/passwd", "/%00",
                     "/.env", "/.git/config", "/assets/../.env", "/%2eenv", "/.git/", "/assets/dot"):  # fmt: skip
            answer = await rest.ask(path, **shown)
            assert (answer.status, b"secret" in answer.body) == (404, False), path
        assert (await rest.ask("/ws/v1/clusters")).status == 401
        assert (await rest.ask("/ws/v1/Clusters", **shown)).status == 301
        assert json.loads((await rest.ask("/ws/v1/clusters", **shown)).body)


async def test_files_of_a_web_ui_are_compressed_and_bound(tmp_path: Path) -> None:
    """``--web-root``: once for all who ask, again when the file has changed, and not where a part is wanted; with a policy."""
    text, script = "const a = 1;\n" * 10_000, tmp_path / "main.js"
    script.write_text(text)
    (tmp_path / "icon.png").write_bytes(b"\x89PNG" + bytes(5000))
    (tmp_path / "sub").mkdir()
    (tmp_path / "404.html").write_text("<html>nothing" + " " * 5000)
    async with rest_daemon(CONFIG, web_root=tmp_path) as rest:
        whole, zipped = await rest.ask("/main.js"), await rest.ask("/main.js", accept_encoding="gzip")
        assert whole.body.decode() == gzip.decompress(zipped.body).decode() == text
        assert (zipped.headers["content-encoding"], len(zipped.body) < 1000) == ("gzip", True)
        assert int(zipped.headers["content-length"]) == len(zipped.body)
        for answer in (whole, zipped):
            assert answer.headers["content-type"].startswith("text/javascript")
            assert answer.headers["vary"] == "Accept-Encoding"
            policy = answer.headers["content-security-policy"]
            assert "script-src" not in policy
            assert policy.startswith("default-src 'self'; ")
            assert "frame-ancestors 'none'" in policy
            assert (await rest.ask("/main.js", if_none_match=answer.headers["etag"], accept_encoding="gzip")).status == 304
        part = await rest.ask("/main.js", accept_encoding="gzip", range="bytes=0-4")
        assert (part.status, part.body, "content-encoding" in part.headers) == (206, b"const", False)
        assert "content-encoding" not in (await rest.ask("/icon.png", accept_encoding="gzip")).headers
        missing = await rest.ask("/none", accept_encoding="gzip")
        assert (missing.status, missing.headers["content-security-policy"]) == (404, policy)
        script.write_text("other" * 1000)
        assert gzip.decompress((await rest.ask("/main.js", accept_encoding="gzip")).body) == b"other" * 1000
