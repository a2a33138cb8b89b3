"""The OpenAPI document: what it says of answers and of parameters holds, whatever is asked.

Schemathesis makes the requests and compares the answers with the document.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote

import schemathesis
import trio
from hypothesis import Phase, given, settings
from jsonschema_rs import Draft202012Validator
from restdaemon import Rest, rest_daemon
from schemathesis import Case
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from seeds import scaled
from test_rest_contract import CONFIG, populated

#: Objects of ``populated``.
NAMES = {"partition": "default", "queue": "root.a", "app": "app", "ask": "app-0", "node": "n1", "user": "alice", "group": "dev"}
NAMES |= {"kind": "queue", "id": "root.a", "job": "app"}


async def described(rest: Rest) -> BaseSchema:
    """The API as the document of the daemon has it; a field that it does not name is wrong too."""
    whole = (await rest.ask("/openapi.json")).content
    for component in whole["components"]["schemas"].values():
        component["additionalProperties"] = component.get("additionalProperties", False)
    schema = schemathesis.openapi.from_dict(whole)
    schema.config.update(base_url=f"http://127.0.0.1:{rest.port}")
    return schema


def operations(schema: BaseSchema) -> Iterator[APIOperation]:
    """All but the stream, which has no end."""
    for found in schema.get_all_operations():
        operation = found.ok()
        if not operation.path.endswith("/stream"):
            yield operation


async def test_answers_are_as_the_document_says() -> None:
    """Every route, on a daemon where there is something of everything."""
    async with populated() as rest:
        schema = await described(rest)
        await trio.to_thread.run_sync(ask_of_each, schema)


def ask_of_each(schema: BaseSchema) -> None:
    for operation in operations(schema):
        has_states = "{state}" in operation.path and "{queue}" not in operation.path
        for state in ("active", "completed", "rejected") if has_states else ("active",):
            names = {name: (NAMES | {"state": state})[name] for name in re.findall(r"\{(\w+)\}", operation.path)}
            bodies = {"application/yaml": CONFIG, "application/json": {}}
            body = next(({"body": bodies[each.media_type], "media_type": each.media_type} for each in operation.body), {})
            case = operation.Case(path_parameters=names, **body)
            page = {"Origin": operation.base_url} if operation.path.endswith("/login") else {}  # only pages log in
            answer = case.call(allow_redirects=False, headers=page)
            assert answer.status_code == min(int(status) for status in operation.responses.status_codes), case
            case.validate_response(answer)


async def test_whatever_is_asked() -> None:
    """A request that the document allows is not refused; any other is answered as it says, never with 500.

    More than it says may be taken (``schemas``).
    """
    async with rest_daemon(CONFIG) as rest:
        schema = await described(rest)
        for mode in GenerationMode:
            await trio.to_thread.run_sync(ask_anything, schema, mode)


def ask_anything(schema: BaseSchema, mode: GenerationMode) -> None:
    for operation in operations(schema):
        if mode is GenerationMode.NEGATIVE and not operation.query:
            continue  # whatever is in a path is a name, or of another path

        @settings(max_examples=scaled(6), phases=[Phase.generate], database=None)
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            if "partition" in case.path_parameters:
                case.path_parameters["partition"] = "default"
            # What asks may be is said by the scheduler, and not by the types of their messages.
            has_work = any(each.media_type == "application/json" for each in case.operation.body)
            excluded = [negative_data_rejection, *([positive_data_acceptance] if has_work else [])]
            case.call_and_validate(excluded_checks=excluded)

        ask()


async def test_what_the_document_says_of_accounts_is_taken() -> None:
    """Several columns with commas between them, days as a number, as dates and as times."""
    async with rest_daemon() as rest:
        path = "/ws/v1/partition/{partition}/usage/accounting"
        described = (await rest.ask("/openapi.json")).content["paths"][path]["get"]["parameters"]
        by, since, until = [each for each in described if each["in"] == "query"]
        assert (by["schema"]["type"], by["explode"], by["schema"]["uniqueItems"]) == ("array", False, True)
        validator = Draft202012Validator(since["schema"], validate_formats=True)
        assert since["schema"] == until["schema"]
        for day in ("7d", "2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"):
            assert validator.is_valid(day)
            query = f"by={','.join(by['schema']['items']['enum'])}&since={quote(day)}&until={quote(day)}"
            assert (await rest.ask(f"{path.replace('{partition}', 'default')}?{query}")).status == 200
        for day in ("", "0d", "2026-02-30", "yesterday"):
            assert not validator.is_valid(day)


async def test_the_document() -> None:
    """The document needs no proof, names each operation once in words, describes each body, and refers to its own parts."""
    async with rest_daemon() as rest:
        whole = (await rest.ask("/openapi.json")).content
        found = [operation for methods in whole["paths"].values() for operation in methods.values()]
        names = [operation["operationId"] for operation in found]
        assert len(set(names)) == len(names)
        assert [name for name in names if not re.fullmatch("(get|post)([A-Z][a-z]+)+", name)] == []
        assert {"getQueues", "getQueueApplicationsByState", "getUsageAccounting", "getJobs", "getJob", "postValidateConf"} <= {
            *names
        }
        bodies = [answer for operation in found for status, answer in operation["responses"].items() if status != "301"]
        assert [answer for answer in bodies if not answer.get("content")] == []
        (body,) = [operation["requestBody"] for operation in found if operation["operationId"] == "postValidateConf"]
        assert body == {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}
        referred = set(re.findall(r"#/components/schemas/(\w+)", str(whole)))
        assert referred == set(whole["components"]["schemas"])
