"""``/ws/v1/config`` and ``/ws/v1/validate-conf``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import trio
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.gateway import ConfigText, ReadGateway
from ykactor.surfaces.files.config_loader import LOAD_S, is_small, load_config
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.surfaces.http.app import check_sees_all, view_for
from ykactor.surfaces.http.body import body_of
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.replies import JSON, Page, reply
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.queuefile import ConfigError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode
from ykactor.wire.rest.configuration import json_of, yaml_of
from ykactor.wire.si.lengths import CONFIG_MAX, shortened

YAML = "application/x-yaml; charset=UTF-8"
#: Configurations that are validated or wait for it; one is at a time, because each takes a processor and much memory.
VALIDATIONS_MAX = 4
_SOURCE = "body"
_READER = "the process that reads the configuration"
_FORMS = {"json": json_of, "yaml": yaml_of}


class Configuration:
    """Answers requests about configurations."""

    def __init__(self, published: Published) -> None:
        self._published = published
        self._gateway: ReadGateway = published.gateway
        self._validating = trio.Lock()
        self._validations = 0

    async def config(self, request: Request) -> Response:
        """``/ws/v1/config``."""
        check_sees_all(request)
        is_json = request.headers.getlist("accept") == ["application/json"]
        page = await self.page("json" if is_json else "yaml")
        return await reply(request, page, JSON if is_json else YAML)

    async def page(self, form: str) -> Page:
        """The configuration in force as ``json`` or ``yaml``."""
        config = self._gateway.config
        return await self._published.kept(("config", config.checksum, form), partial(_page, config, form))

    async def validate(self, request: Request) -> Response:
        """``/ws/v1/validate-conf``."""
        async with self._place():
            body = await body_of(request, CONFIG_MAX)
            async with self._validating:
                verdict = await self._verdict(body)
        if view_for(request) is not None:  # it could guess what is in force
            verdict = structs.replace(verdict, checksum="", checksum_match=False)
        return await reply(request, Page(200, [encode(verdict)]))

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self._validations >= VALIDATIONS_MAX:
            raise RefusedError(503, f"{VALIDATIONS_MAX} configurations are being validated: try again")
        self._validations += 1
        try:
            yield
        finally:
            self._validations -= 1

    async def _verdict(self, body: bytes) -> types.Verdict:
        try:
            with _other_process():
                checksum = (await load_config(body.decode(), _SOURCE)).checksum
        except (ConfigError, UnicodeDecodeError) as error:
            return types.Verdict(allowed=False, reason=str(error))
        return types.Verdict(allowed=True, checksum=checksum, checksum_match=checksum == self._gateway.config.checksum)


async def _page(config: ConfigText, form: str) -> Page:
    data = config.text.encode()
    if is_small(config.text):
        return Page(200, [_written(data, config.checksum, form)])
    with _other_process():
        return Page(200, [await in_helper_process(_written, data, config.checksum, form, limit_s=LOAD_S)])


def _written(data: bytes, checksum: str, form: str) -> bytes:
    """A valid configuration as ``json`` or ``yaml``."""
    return _FORMS[form](data.decode(), checksum)


@contextmanager
def _other_process() -> Iterator[None]:
    """Refuse the request if the helper process cannot read the configuration: that is no error of the daemon."""
    try:
        yield
    except (ConfigError, UnicodeDecodeError):
        raise
    except trio.TooSlowError:
        raise RefusedError(503, f"{_READER} took longer than {LOAD_S:g} s, expected less") from None
    except (HelperProcessError, ValueError) as error:  # its output is wrong if another version was installed meanwhile
        raise RefusedError(503, f"{_READER} failed: {shortened(str(error))}") from error
