"""The version in which a server has a kind: an old one lacks the newer ones, and an alpha or beta one may be switched on."""

from __future__ import annotations

import re

import trio
from msgspec import Struct

from ykactor.kubernetes.api import Api, ApiError
from ykactor.kubernetes.outage import Outages

_FORM = re.compile(r"v([0-9]{1,4})(?:(alpha|beta)([0-9]{1,4}))?")
_PAUSE_S = 5.0


class _Version(Struct):
    version: str


class _Group(Struct):
    versions: list[_Version] = []


class _Resource(Struct):
    name: str


class _Resources(Struct):
    resources: list[_Resource] = []


async def find_version(api: Api, group: str, resource: str, outages: Outages) -> str:
    """The newest version that has a resource, as ``policy/v1``; "" if none has it. Waits until the server answers."""
    what, found = f"the versions of {resource}", None
    while found is None:
        try:
            found = await _find(api, group, resource)
        except ApiError as error:
            if error.status == 404:
                found = ""
            else:
                outages.failed(what, error)
                await trio.sleep(max(error.retry_after_s, _PAUSE_S))
    outages.over(what)
    return found


async def _find(api: Api, group: str, resource: str) -> str:
    found = await api.read(f"/apis/{group}", _Group)
    for version in sorted((each.version for each in found.versions), key=_age):
        there = await api.read(f"/apis/{group}/{version}", _Resources)
        if any(each.name == resource for each in there.resources):
            return f"{group}/{version}"
    return ""


def _age(version: str) -> tuple[int, int, int]:
    """Sort key: stable versions first, then beta, then alpha, each the newest first."""
    found = _FORM.fullmatch(version)
    if found is None:
        return 3, 0, 0
    kind = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return kind, -int(found[1]), -int(found[3] or 0)
