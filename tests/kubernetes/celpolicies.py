"""Admission policies as an API server applies them: their CEL expressions are evaluated by Google's cel-cpp.

Two things that only API servers know are rewritten before. ``variables.NAME`` becomes the expression of that variable in
brackets, and ``Object.spec{template: VALUE}``, which makes a part of an object, becomes the map ``{'template': VALUE}``. A patch
of the type ApplyConfiguration is merged into the object. The rest of each expression is evaluated as it stands in the manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings
from fakehttp import Body, Refused
from mergepatch import merged

_PART = re.compile(r"\bObject(?:\.\w+)*\{(?:(\w+):)?")
_VARIABLE = re.compile(r"\bvariables\.(\w+)")


class User(NamedTuple):
    """Somebody who sends requests."""

    name: str
    groups: tuple[str, ...]


class Request(NamedTuple):
    """Input of a policy; ``resource`` is such as ``pods`` or ``pods/status``, ``old`` is the object before an update."""

    user: User
    operation: str
    resource: str
    namespace: str
    object: Body
    old: Body | None = None


class Policies:
    """Args:
    documents: of the manifest; kinds that are no policies are left out.
    labels: of the namespaces.
    """

    def __init__(self, documents: Iterable[Body], labels: Mapping[str, Mapping[str, str]]) -> None:
        found = list(documents)
        self._labels = labels
        self._mutating = [each for each in found if each["kind"] == "MutatingAdmissionPolicy"]
        self._validating = [each for each in found if each["kind"] == "ValidatingAdmissionPolicy"]
        self._bindings = {each["spec"]["policyName"]: each["spec"] for each in found if each["kind"].endswith("Binding")}

    def admit(self, request: Request) -> Body:
        """The object as it is stored. Raises ``Refused`` for what a policy denies."""
        request = request._replace(object=json.loads(json.dumps(request.object)))
        for policy in filter(lambda each: self._applies(each, request), self._mutating):
            for mutation in policy["spec"]["mutations"]:
                patch = _evaluated(policy, mutation["applyConfiguration"]["expression"], request)
                request = request._replace(object=merged(request.object, patch, strategic=True))
        for policy in filter(lambda each: self._applies(each, request), self._validating):
            for validation in policy["spec"]["validations"]:
                if not _evaluated(policy, validation["expression"], request) and self._denies(policy):
                    raise Refused(403, validation["reason"], validation["message"])
        return request.object

    def _applies(self, policy: Body, request: Request) -> bool:
        name = policy["metadata"]["name"]
        if name not in self._bindings:
            return False
        spec = policy["spec"]
        places = [spec["matchConstraints"], self._bindings[name].get("matchResources", {})]
        return (
            any(_has(rule, request) for rule in spec["matchConstraints"]["resourceRules"])
            and all(self._is_selected(each.get("namespaceSelector", {}), request.namespace) for each in places)
            and all(_evaluated(policy, each["expression"], request) for each in spec.get("matchConditions", ()))
        )

    def _denies(self, policy: Body) -> bool:
        """Otherwise it only warns."""
        return "Deny" in self._bindings[policy["metadata"]["name"]]["validationActions"]

    def _is_selected(self, selector: Body, namespace: str) -> bool:
        labels = {"kubernetes.io/metadata.name": namespace, **self._labels.get(namespace, {})}
        wanted: Mapping[str, str] = selector.get("matchLabels", {})
        absent = [each for each in selector.get("matchExpressions", ()) if labels.get(each["key"]) in each["values"]]
        assert all(each["operator"] == "NotIn" for each in selector.get("matchExpressions", ()))
        return not absent and all(labels.get(name) == value for name, value in wanted.items())


def _has(rule: Body, request: Request) -> bool:
    group, _, version = request.object["apiVersion"].rpartition("/")
    return (
        group in rule["apiGroups"]
        and version in rule["apiVersions"]
        and request.operation in rule["operations"]
        and request.resource in rule["resources"]
    )


# ---- expressions


def _evaluated(policy: Body, expression: str, request: Request) -> Any:
    variables = tuple((each["name"], each["expression"]) for each in policy["spec"].get("variables", ()))
    resource, _, subresource = request.resource.partition("/")
    user: Body = {"username": request.user.name}
    if request.user.groups:  # a server leaves out what is empty
        user["groups"] = list(request.user.groups)
    data = {
        "object": request.object,
        "oldObject": request.old,
        "request": {
            "operation": request.operation,
            "namespace": request.namespace,
            "resource": {"resource": resource},
            "subResource": subresource,
            "userInfo": user,
        },
    }
    value = _compiled(expression, variables).eval(data=data)
    assert value.type() != cel.Type.ERROR, f"{value.value()}: {expression}"
    return value.plain_value()


@cache
def _compiled(text: str, variables: tuple[tuple[str, str], ...]) -> cel.Expression:
    known = dict(variables)
    while _VARIABLE.search(text):
        text = _VARIABLE.sub(lambda match: f"({known[match[1]]})", text)
    return _environment().compile(_PART.sub(lambda match: f"{{'{match[1]}':" if match[1] else "{", text))


@cache
def _environment() -> cel.Env:
    variables = dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN)
    return cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()])
