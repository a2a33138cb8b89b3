"""The OpenAPI document, and that the answers are what it says."""

import re
from typing import Any

from restdaemon import rest_daemon
from test_rest_contract import CONFIG, populated

#: By the type of a schema, those of Python.
KINDS = {
    "object": {dict},
    "array": {list},
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "null": {type(None)},
}


def complaints(value: Any, schema: dict[str, Any], whole: dict[str, Any], where: str) -> Any:
    """The places at which a value is not what a schema of the document says. Fields that it does not name are wrong too."""
    if "$ref" in schema:
        schema = whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if not any(not list(complaints(value, choice, whole, where)) for choice in schema["anyOf"]):
            yield where
        return
    kind = schema.get("type")
    if kind is not None and type(value) not in KINDS[kind]:
        yield f"{where}: {value!r} is no {kind}"
        return
    if isinstance(value, list):
        for item in value:
            yield from complaints(item, schema.get("items", {}), whole, f"{where}[]")
    if isinstance(value, dict) and schema:
        named, more = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value)
        for name, inner in value.items():
            if name not in named and more is None:
                yield f"{where}.{name} is not in the document"
            else:
                yield from complaints(inner, named.get(name, more), whole, f"{where}.{name}")


async def test_answers_are_as_the_document_says() -> None:
    """Every route with a type, on a daemon where there is something of everything."""
    names = {"partition": "default", "queue": "root.a", "app": "app", "node": "n1", "user": "alice", "group": "dev"}
    async with populated() as rest:
        whole = (await rest.ask("/openapi.json")).content
        looked_at = set()
        for path, operations in whole["paths"].items():
            ((method, operation),) = operations.items()
            content = operation["responses"].get("200", {}).get("content")
            if not content:
                continue
            for state in ("active", "rejected") if "{state}" in path and "queue" not in path else ("active",):
                answer = await rest.ask(
                    path.format(**names, state=state), method.upper(), CONFIG.encode() if method == "post" else None
                )
                assert answer.status == 200
                schema = content["application/json"]["schema"]
                assert list(complaints(answer.content, schema, whole, path)) == []
            looked_at.add(path)
        assert len(looked_at) > 20


async def test_refusals_are_as_the_document_says() -> None:
    """A status that the document does not name never comes, whatever the parameters are."""
    async with rest_daemon(CONFIG) as rest:
        whole = (await rest.ask("/openapi.json")).content
        for path, operations in whole["paths"].items():
            ((method, operation),) = operations.items()
            if path.endswith("stream"):
                continue
            for wrong in ("none", "a%252Fb", "..", "%25zz", "%00", "1" * 300, "root..a", "default"):
                filled = re.sub(r"\{partition\}", "default" if wrong != "none" else wrong, path)
                filled = re.sub(r"\{\w+\}", wrong, filled)
                queries = [f"{found['name']}={wrong}" for found in operation["parameters"] if found["in"] == "query"]
                answer = await rest.ask(
                    f"{filled}?{'&'.join(queries)}", method.upper(), b"wrong: 1" if method == "post" else None
                )
                assert str(answer.status) in operation["responses"], (filled, answer.status)
                if answer.status >= 400:
                    error = operation["responses"][str(answer.status)]["content"]["application/json"]["schema"]
                    assert list(complaints(answer.content, error, whole, path)) == []


async def test_the_document() -> None:
    """It needs no proof, names each operation once, and refers to what is in it."""
    async with rest_daemon() as rest:
        whole = (await rest.ask("/openapi.json")).content
        operations = [operation for found in whole["paths"].values() for operation in found.values()]
        names = [operation["operationId"] for operation in operations]
        assert len(set(names)) == len(names)
        referred = set(re.findall(r"#/components/schemas/(\w+)", str(whole)))
        assert referred == set(whole["components"]["schemas"])
