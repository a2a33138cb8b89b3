"""``/openapi.json``: the OpenAPI document of the REST API, made of its routes and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ykactor import __version__
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.replies import reply
from ykactor.surfaces.http.route import Route
from ykactor.surfaces.http.schemas import AnyName
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
#: Refusals of all routes, of those that need a proof, and what they mean.
_ALWAYS = (500, 503)
_OF_NOBODY = (401, 403)
_MEANINGS = {
    400: "a parameter is wrong",
    401: "no valid proof of an identity",
    403: "the identity may not read this",
    404: "there is no such object",
    408: "the body has not arrived in time",
    413: "the body is too large",
    500: "an error of the daemon",
    503: "too much is asked, or the daemon does not serve",
}


async def answer(found: dict[str, Any], request: Request) -> Response:
    """``/openapi.json``."""
    return await reply(request, Page(200, [encode(found)]))


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document, as plain data."""
    typed = {route.path: route.answer for route in routes if route.answer is not None}
    schemas, components = msgspec.json.schema_components([*typed.values(), types.Error], ref_template=_REF)
    of_path = dict(zip(typed, schemas, strict=False))  # the last one is that of errors
    return {
        "openapi": "3.1.0",
        "info": {"title": "ykactor", "version": __version__, "description": "Apache YuniKorn's REST API, as ykactor serves it."},
        "paths": {route.path: {route.method.lower(): _operation(route, of_path.get(route.path))} for route in routes},
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, schema: dict[str, Any] | None) -> dict[str, Any]:
    plain = {kind: {"schema": {"type": "string"} if kind.startswith("text/") else {}} for kind in route.media_types}
    content = (
        {"content": plain} if schema is None and plain else {} if schema is None else {"content": {_JSON: {"schema": schema}}}
    )
    statuses = sorted({*route.statuses, *_ALWAYS, *(_OF_NOBODY if route.role is not None else ())})
    error = {"content": {_JSON: {"schema": {"$ref": _REF.format(name="Error")}}}} if route.role is not None else content
    responses = {str(route.success): {"description": "found", **content}}
    responses |= {str(status): {"description": _MEANINGS[status], **error} for status in statuses}
    for status in map(str, route.other_success):
        either = {"anyOf": [schema, {"$ref": _REF.format(name="Error")}]}
        responses[status] = responses[status] | {"content": {_JSON: {"schema": either}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": [*_parameters(route)],
        "responses": responses,
    }
    if route.body:
        operation["requestBody"] = {"required": True, "content": {route.body: {"schema": {"type": "string"}}}}
    if route.role is not None:
        operation["security"] = [{"bearer": []}, {}]  # the second one without an access file
    return operation


def _operation_id(route: Route) -> str:
    """Such as ``getQueueApplicationsByState``: the method, and the words of the path without the partition, which most have."""
    path = route.path.removeprefix("/ws/v1").removeprefix("/partition/{partition}").replace("{state}", "by-state")
    words = re.findall(r"[a-z]+", re.sub(r"\{\w+\}", "", path))
    return route.method.lower() + "".join(map(str.capitalize, words))


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", route.path)
    for name in names:
        yield {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(route.parameters.get(name, AnyName))}
    for name, kind in route.parameters.items():
        if name not in names:
            schema = msgspec.json.schema(kind)
            form = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
            yield {"name": name, "in": "query", "schema": schema, **form}
