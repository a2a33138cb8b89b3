"""Tables of the rules of the manifests' admission policies: for a simulation, and for an API server that has them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from celpolicies import Policies, Request, User
from fakehttp import Body, Refused
from mergepatch import merged

USER_INFO = "yunikorn.apache.org/user.info"
APP_ID = "yunikorn.apache.org/app-id"
ALICE = User("alice", ("dev", "system:authenticated"))
BOB = User("bob", ("system:authenticated",))
CAROL = User("carol", BOB.groups)
CONTROLLER = User("system:serviceaccount:kube-system:job-controller", ("system:serviceaccounts:kube-system", *BOB.groups))
MANAGER = User("system:kube-controller-manager", BOB.groups)
ADAPTER = User("system:serviceaccount:ykactor:ykactor", ("system:serviceaccounts:ykactor", *BOB.groups))
#: Names that would end the string in the JSON before its end, or are none there.
WRONG_NAMES = ('al"ice', "al\\ice", "al\tice")
#: The label of namespaces whose pods ykactor schedules.
SCHEDULED = {"ykactor.io/schedule": "true"}

_SELECTOR = {"matchLabels": {"app": "x"}}


class Kind(NamedTuple):
    """A resource whose objects are pods, or make some; ``path`` leads to the metadata of the pods."""

    resource: str
    version: str
    kind: str
    path: tuple[str, ...]
    spec: Body = {}  # noqa: RUF012


_TEMPLATE = ("spec", "template", "metadata")
POD = Kind("pods", "v1", "Pod", ("metadata",))
JOB = Kind("jobs", "batch/v1", "Job", _TEMPLATE, {"suspend": True})
DEPLOYMENT = Kind("deployments", "apps/v1", "Deployment", _TEMPLATE, {"selector": _SELECTOR, "replicas": 0})
#: All that an API server and its controllers make pods of.
KINDS = (
    POD,
    DEPLOYMENT,
    Kind("replicasets", "apps/v1", "ReplicaSet", _TEMPLATE, {"selector": _SELECTOR, "replicas": 0}),
    Kind("statefulsets", "apps/v1", "StatefulSet", _TEMPLATE, {"selector": _SELECTOR, "replicas": 0, "serviceName": "x"}),
    Kind("daemonsets", "apps/v1", "DaemonSet", _TEMPLATE, {"selector": _SELECTOR}),
    JOB,
    Kind("cronjobs", "batch/v1", "CronJob", ("spec", "jobTemplate", *_TEMPLATE), {"schedule": "0 0 1 1 *", "suspend": True}),
    Kind("replicationcontrollers", "v1", "ReplicationController", _TEMPLATE, {"selector": {"app": "x"}, "replicas": 0}),
)


class Check(NamedTuple):
    """Somebody makes an object with a value of the annotation, then perhaps somebody writes another value.

    ``wanted`` is the value of the annotation in the end. ``refused`` is None where a server may refuse a change or ignore it.
    """

    title: str
    kind: Kind
    maker: User
    told: str | None
    wanted: str | None
    refused: bool | None = False
    changer: User | None = None
    change: str | None = None
    subresource: str = ""
    namespace: str = "team"


def info(user: User) -> str:
    """The annotation that names a user."""
    groups = ",".join(f'"{each}"' for each in user.groups)
    return f'{{"user":"{user.name}","groups":[{groups}]}}'


def full() -> Iterator[Check]:
    """The checks of all policies."""
    yield from _in_turn([*_making(kind), *_changing(kind)] for kind in KINDS)
    for subresource in ("status", "binding", "bindings"):
        yield Check(f"pods: {subresource} forges", POD, ALICE, None, info(ALICE), True, BOB, info(CAROL), subresource)
    for subresource in ("ephemeralcontainers", "resize"):
        yield Check(f"pods: {subresource} forges", POD, ALICE, None, info(ALICE), None, BOB, info(CAROL), subresource)
    yield from _wrong_names()


def _making(kind: Kind) -> Iterator[Check]:
    what = kind.resource
    yield Check(f"{what}: a forged name becomes that of the caller", kind, ALICE, info(BOB), info(ALICE))
    yield Check(f"{what}: no name becomes that of the caller", kind, ALICE, None, info(ALICE))
    yield Check(f"{what}: no JSON becomes the name of the caller", kind, ALICE, "boo", info(ALICE))
    for user in (CONTROLLER, MANAGER):
        yield Check(f"{what}: {user.name} keeps the name of the template", kind, user, info(BOB), info(BOB))
        yield Check(f"{what}: {user.name} keeps that there is no name", kind, user, None, None)
    yield Check(f"{what}: the adapter names another one", kind, ADAPTER, info(BOB), info(BOB))
    yield Check(f"{what}: the adapter that names nobody is named", kind, ADAPTER, None, info(ADAPTER))
    for told in (None, info(BOB)):
        yield Check(f"{what}: {told} in kube-system is left alone", kind, ALICE, told, told, namespace="kube-system")


def _changing(kind: Kind) -> Iterator[Check]:
    what, is_refused = kind.resource, kind is POD
    for user in (BOB, CONTROLLER, ADAPTER):
        yield Check(f"{what}: {user.name} changes the name", kind, ALICE, None, info(ALICE), is_refused, user, info(CAROL))
        yield Check(f"{what}: {user.name} removes the name", kind, ALICE, None, info(ALICE), is_refused, user, None)
        yield Check(f"{what}: {user.name} writes the same name", kind, ALICE, None, info(ALICE), False, user, info(ALICE))
        yield Check(f"{what}: {user.name} names what has no name", kind, CONTROLLER, None, None, True, user, info(BOB))


def _wrong_names() -> Iterator[Check]:
    for kind in KINDS:
        for name in WRONG_NAMES:
            user = User(name, ALICE.groups)
            yield Check(f"{kind.resource}: a user {name!r}", kind, user, None, None, True)
            yield Check(f"{kind.resource}: a group {name!r}", kind, User("dora", (name, *BOB.groups)), None, None, True)


def _validating(kind: Kind) -> Iterator[Check]:
    what = kind.resource
    yield Check(f"{what}: a forged name", kind, ALICE, info(BOB), None, True)
    yield Check(f"{what}: a change", kind, ALICE, info(ALICE), info(ALICE), True, BOB, info(BOB))
    yield Check(f"{what}: a removal", kind, ALICE, info(ALICE), info(ALICE), True, BOB, None)
    yield Check(f"{what}: a name later", kind, ALICE, None, None, True, ALICE, info(ALICE))
    yield Check(f"{what}: no name", kind, ALICE, None, None)
    yield Check(f"{what}: the own name", kind, ALICE, info(ALICE), info(ALICE))
    for user in (CONTROLLER, MANAGER, ADAPTER):
        yield Check(f"{what}: {user.name} may name another one", kind, user, info(BOB), info(BOB))


def validating() -> Iterator[Check]:
    """The checks of the last policy alone, as before 1.36."""
    yield from _in_turn([*_validating(kind)] for kind in KINDS)
    for subresource in ("status", "binding", "bindings"):
        yield Check(f"pods: {subresource} forges", POD, ALICE, None, None, True, BOB, info(CAROL), subresource)
    yield from _wrong_names()


class Placing(NamedTuple):
    """Alice makes a pod; ``wanted`` is its scheduler, its annotation with an application id, and who it says made it."""

    title: str
    namespace: str
    wanted: tuple[str, str | None, str | None]
    spec: Body = {}  # noqa: RUF012
    meta: Body = {}  # noqa: RUF012


#: The labels of the namespaces in which pods are made.
NAMESPACES: dict[str, dict[str, str]] = {"team": {}, "labelled": SCHEDULED, "kube-system": SCHEDULED}


def placings() -> Iterator[Placing]:
    """The pods whose scheduler, group and owner all policies decide about."""
    default, auto, alice = "default-scheduler", "yunikorn-labelled-autogen", info(ALICE)
    yield Placing("no scheduler", "labelled", ("ykactor", auto, alice))
    yield Placing("the default scheduler", "labelled", ("ykactor", auto, alice), {"schedulerName": default})
    yield Placing("another scheduler", "labelled", ("other", None, alice), {"schedulerName": "other"})
    yield Placing("bound already", "labelled", (default, None, alice), {"nodeName": "n1"})
    for label in (APP_ID, "applicationId", "spark-app-selector"):
        yield Placing(f"label {label}", "labelled", ("ykactor", None, alice), {}, {"labels": {label: "a"}})
    yield Placing("annotation", "labelled", ("ykactor", "a", alice), {}, {"annotations": {APP_ID: "a"}})
    yield Placing("no label of the namespace", "team", (default, None, alice))
    yield Placing("the system", "kube-system", (default, None, None))


def _in_turn(found: Iterable[list[Check]]) -> Iterator[Check]:
    """The first ones of all kinds, then the second ones: what is wrong with one kind shows soon."""
    return itertools.chain.from_iterable(zip(*found, strict=True))


# ---- playing


class Acting(Protocol):
    """Carries out requests of users; each may raise ``Refused``."""

    def create(self, user: User, kind: Kind, body: Body, namespace: str) -> Body: ...

    def change(self, user: User, kind: Kind, name: str, patch: Body, subresource: str) -> object: ...

    def read(self, kind: Kind, name: str, namespace: str) -> Body: ...


_numbers = itertools.count(1)


def failures(acting: Acting, checks: Iterable[Check], places: Iterable[Placing] = ()) -> Iterator[str]:
    """The differences from the tables."""
    yield from (f"{check.title}: {text}" for check in checks if (text := _failure(acting, check)))
    yield from (f"{placing.title}: {text}" for placing in places if (text := _misplaced(acting, placing)))


def _failure(acting: Acting, check: Check) -> str:
    """The difference from a check; "" if there is none."""
    is_refused, body, kind = False, manifest(check.kind, check.told), check.kind
    name = body["metadata"]["name"]
    try:
        acting.create(check.maker, kind, body, check.namespace)
        if check.changer is not None:
            acting.change(check.changer, kind, name, _inside(kind, check.change), check.subresource)
    except Refused as refused:
        if refused.status != 403 and check.refused is not None:
            return f"{refused.status} {refused}"
        is_refused = True
    if check.refused not in (None, is_refused):
        return "was refused" if is_refused else "was not refused"
    if is_refused and check.changer is None:
        return ""
    found = name_in(kind, acting.read(kind, name, check.namespace))
    return "" if found == check.wanted else f"has {found}"


def _misplaced(acting: Acting, placing: Placing) -> str:
    body = merged(manifest(POD, None, **placing.spec), {"metadata": placing.meta}, strategic=False)
    try:
        made = acting.create(ALICE, POD, body, placing.namespace)
    except Refused as refused:
        return f"{refused.status} {refused}"
    annotations = made["metadata"].get("annotations", {})
    found = made["spec"]["schedulerName"], annotations.get(APP_ID), annotations.get(USER_INFO)
    return "" if found == placing.wanted else f"has {found}"


def manifest(kind: Kind, told: str | None, **spec: Any) -> Body:
    """An object of a kind with a name of its own."""
    body: Body = {"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": f"x{next(_numbers)}"}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "example"}], **spec}}
    if kind.resource in ("jobs", "cronjobs"):
        template["spec"]["restartPolicy"] = "Never"
    if kind is POD:
        body = merged(body, template, strategic=False)
    else:
        inner: Body = template
        for part in reversed(kind.path[1:-1]):
            inner = {part: inner}
        body["spec"] = {**kind.spec, **inner}
    return body if told is None else merged(body, _inside(kind, told), strategic=False)


def _inside(kind: Kind, value: str | None) -> Body:
    """A patch that writes the annotation; None removes it."""
    patch: Body = {"annotations": {USER_INFO: value}}
    for part in reversed(kind.path):
        patch = {part: patch}
    return patch


def name_in(kind: Kind, body: Body) -> str | None:
    """The value of the annotation in an object."""
    for part in kind.path:
        body = body.get(part) or {}
    found: str | None = (body.get("annotations") or {}).get(USER_INFO)
    return found


def binding(name: str, patch: Body) -> Body:
    """A Binding with the metadata of a patch."""
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    found: Body = merged(body, patch, strategic=False)
    return found


class Simulation:
    """Objects behind policies that are evaluated here."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._objects: dict[str, Body] = {}

    def create(self, user: User, kind: Kind, body: Body, namespace: str) -> Body:
        if kind is POD:
            body["spec"].setdefault("schedulerName", "default-scheduler")  # filled in before policies are asked
        found = self._policies.admit(Request(user, "CREATE", kind.resource, namespace, body))
        self._objects[body["metadata"]["name"]] = found
        return found

    def change(self, user: User, kind: Kind, name: str, patch: Body, subresource: str) -> object:
        old = self._objects[name]
        if subresource in ("binding", "bindings"):
            resource = "bindings" if subresource == "bindings" else "pods/binding"
            return self._policies.admit(Request(user, "CREATE", resource, "team", binding(name, patch)))
        resource = f"{kind.resource}/{subresource}".rstrip("/")
        new = merged(json.loads(json.dumps(old)), patch, strategic=False)
        self._objects[name] = self._policies.admit(Request(user, "UPDATE", resource, "team", new, old))
        return None

    def read(self, kind: Kind, name: str, namespace: str) -> Body:
        return self._objects[name]
