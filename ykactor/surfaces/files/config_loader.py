"""Loads a queue file without blocking the event loop.

Loading thousands of queues takes most of a second, so a large text is loaded by a separate process, and its result is decoded
one frame at a time.
"""

import trio

from ykactor.actors.pauses import drive
from ykactor.core.config.model import SchedulerConfig
from ykactor.surfaces.files.helper_process import in_helper_process
from ykactor.wire import queuefile
from ykactor.wire.queuefile.frames import decoding, encode
from ykactor.wire.queuefile.manifests import BINARY_KEY

#: A text of up to this many characters is loaded in this process, in less than 10 ms.
INLINE_MAX = 8_000
#: With one of these a short text can stand for a long one: compressed data, and anchors.
_MULTIPLIERS = (BINARY_KEY, "&")
#: The time limit of a load. The largest file that is read (``lengths.CONFIG_MAX``) takes up to three minutes.
LOAD_S = 180.0


def is_small(text: str) -> bool:
    """True if reading the text takes less time than starting a process does."""
    return len(text) <= INLINE_MAX and not any(sign in text for sign in _MULTIPLIERS)


async def load_config(text: str, source: str) -> SchedulerConfig:
    """Load a configuration like ``queuefile.load``.

    Raises:
        ConfigError: the text is wrong.
        HelperProcessError: the process could not be started, or failed.
        trio.TooSlowError: the load took longer than ``LOAD_S``.
        ValueError: the output of the process is wrong, for example because another version was installed meanwhile.
    """
    if is_small(text):
        return queuefile.load(text, source)
    encoded = await in_helper_process(_load_encoded, text.encode(), source, limit_s=LOAD_S)
    return await drive(decoding(encoded, text), trio.lowlevel.checkpoint)


def _load_encoded(data: bytes, source: str) -> bytes:
    """The frames of a configuration, or of its mistakes."""
    loaded: SchedulerConfig | queuefile.ConfigError
    try:
        loaded = queuefile.load(data.decode(), source)
    except queuefile.ConfigError as error:
        loaded = error
    return encode(loaded)
