"""Log lines about what any peer can cause as often as it likes."""

import logging
import traceback

import trio

from ykactor.surfaces.server.logs import log_event


class LimitedLog:
    """Logs one event, at most ``lines`` times within ``within_s`` seconds.

    After a pause the next line has the key ``left_out``: the number of lines that were not written before it.
    """

    def __init__(self, logger: logging.Logger, level: int, event: str, *, lines: int, within_s: float) -> None:
        self._logger = logger
        self._level = level
        self._event = event
        self._lines_max = lines
        self._within_s = within_s
        self._began_s = trio.current_time()
        self._lines = 0
        self._left_out = 0

    def log(self, **keys: object) -> None:
        """Log the event with these keys (``logs.log_event``), or count it."""
        now_s = trio.current_time()
        if now_s - self._began_s >= self._within_s:
            self._began_s, self._lines = now_s, 0
        if self._lines == self._lines_max:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            keys["left_out"] = self._left_out
            self._left_out = 0
        log_event(self._logger, self._level, self._event, **keys)


def raised_at(errors: BaseException) -> str:
    """Where errors were raised. Their texts may quote a request, which has credentials."""
    if isinstance(errors, BaseExceptionGroup):
        return ", ".join(map(raised_at, errors.exceptions))
    *_, place = traceback.extract_tb(errors.__traceback__)
    return f"{type(errors).__name__} in {place.name}, line {place.lineno} of {place.filename}"
