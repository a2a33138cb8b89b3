"""The error of a message of a peer."""


class ProtocolError(Exception):
    """A message of a peer is wrong; nothing of the message took effect.

    Attributes:
        code: for programs, for example ``WRONG_TYPE``.
        message: for people: what was found, what was expected.
        path: where in the message, for example ``allocations[3].resourcePerAlloc.vcore``; empty for the whole message.
        request_id: the request's ``id``; empty if it could not be read.
    """

    def __init__(self, code: str, message: str, path: str = "", request_id: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.code = code
        self.message = message
        self.path = path
        self.request_id = request_id

    def below(self, parent: str, request_id: str = "") -> "ProtocolError":
        """The same error with ``parent`` put in front of ``path``."""
        path = f"{parent}.{self.path}" if self.path else parent
        return ProtocolError(self.code, self.message, path, request_id or self.request_id)
