"""What a scenario has created in a daemon, and how it is removed again."""

from collections.abc import Iterator

from ykactor.client import ResourceManager
from ykactor.core.messages.submissions import PARTITION_ATTRIBUTE
from ykactor.wire.si import messages as si

#: Entries of one request.
ENTRIES_MAX = 1000
#: The id of the request whose ``Ack`` follows all earlier responses.
_LAST = "last"


class Created:
    """The nodes and applications that requests have created: those that the daemon has accepted.

    What existed before is rejected when it is created again, so it is not among them.
    """

    def __init__(self) -> None:
        #: The partitions, by the id of each node and application of the requests.
        self._node_partitions: dict[str, str] = {}
        self._application_partitions: dict[str, str] = {}
        #: Accepted; in order, so that the same requests are sent each time.
        self._node_ids: dict[str, None] = {}
        self._application_ids: dict[str, None] = {}

    def note_request(self, request: si.Request) -> None:
        """To be called before the request is sent."""
        if isinstance(request, si.NodeRequest):
            for node in request.nodes:
                self._node_partitions.setdefault(node.node_id, node.attributes.get(PARTITION_ATTRIBUTE, ""))
        elif isinstance(request, si.ApplicationRequest):
            for application in request.new:
                self._application_partitions[application.application_id] = application.partition_name

    def note_response(self, response: si.Response) -> None:
        """To be called with each response; those to requests of an earlier session have no effect."""
        if isinstance(response, si.NodeResponse):
            accepted_nodes = [node.node_id for node in response.accepted]
            self._node_ids |= dict.fromkeys(name for name in accepted_nodes if name in self._node_partitions)
        elif isinstance(response, si.ApplicationResponse):
            accepted = [application.application_id for application in response.accepted]
            self._application_ids |= dict.fromkeys(name for name in accepted if name in self._application_partitions)

    def has_application(self, application_id: str) -> bool:
        """Whether the application is one of them."""
        return application_id in self._application_ids

    async def remove(self, rm: ResourceManager) -> None:
        """Remove the applications, then the nodes; nobody else may read responses meanwhile.

        Raises:  Disconnected, Refused.
        """
        await rm.send(si.NodeRequest(id=_LAST))
        async for response in rm:
            self.note_response(response)
            if isinstance(response, si.Ack) and response.id == _LAST:
                break
        for request in self._removals():
            await rm.request(request)

    def _removals(self) -> Iterator[si.Request]:
        for ids in _pieces(list(self._application_ids)):
            yield si.ApplicationRequest(
                remove=[
                    si.RemoveApplicationRequest(application_id=name, partition_name=self._application_partitions[name])
                    for name in ids
                ]
            )
        for ids in _pieces(list(self._node_ids)):
            yield si.NodeRequest(
                nodes=[
                    si.NodeInfo(node_id=name, action="DECOMISSION", attributes={PARTITION_ATTRIBUTE: self._node_partitions[name]})
                    for name in ids
                ]
            )


def _pieces(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), ENTRIES_MAX):
        yield ids[start : start + ENTRIES_MAX]
