"""A message of resource managers: ``TagApplications`` sets tags of applications that are there."""

from __future__ import annotations

from additions.applying import Edits, after, before, replaced

EDITS: Edits = {
    "wire/si/messages/requests.py": [
        before(
            "class RemoveApplicationRequest(",
            '''
class TaggedApplication(RequestPart, frozen=True):
    """Tags of an application; the others stay."""

    application_id: str
    tags: Mapping[str, str]
    partition_name: str = ""


''',
        ),
        before(
            "class SetQueueQuotas(_Request",
            '''
class TagApplications(_Request, frozen=True, kw_only=True):
    """Sets tags of applications that are there; others are ignored."""

    tagged: Sequence[TaggedApplication] = []


''',
        ),
        before("| SetQueueQuotas", "    | TagApplications\n"),
    ],
    "wire/si/requests.py": [
        replaced("PartitionRequest = si.NodeRequest", "PartitionRequest = si.TagApplications | si.NodeRequest"),
        after(
            "match request:",
            '        case si.TagApplications():\n            return [("tagged", request.tagged, _tags)]\n',
        ),
        before(
            "def _removal(wire",
            """
def _tags(wire: si.TaggedApplication) -> _Routed:
    require(wire.application_id, "applicationID")
    return partition_named(wire.partition_name), SetTags(ApplicationID(wire.application_id), dict(wire.tags))


""",
        ),
        before("UpdateNode,", "    SetTags,\n"),
    ],
    "access/permissions.py": [
        before(
            "_asked(si.SetQueueQuotas",
            """
        _asked(
            si.TagApplications,
            "id",
            tagged=EachPartition(_asked(si.TaggedApplication, "application_id tags", partition_name=_acts_in)),
        ),
""",
        ),
    ],
    "core/messages/submissions.py": [
        before(
            "#: The attribute of a node that names its partition.",
            '''
class SetTags(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Set tags of an application; the others stay."""

    application_id: ApplicationID
    tags: dict[str, str]

    @property
    def words(self) -> str:
        return f"the request to tag application {self.application_id}"


''',
        ),
        replaced("ApplicationNews = RemoveApplication", "ApplicationNews = SetTags | RemoveApplication"),
    ],
    "core/objects/queues.py": [
        before(
            "elif type(submission) is RecordTask:",
            """
            elif type(submission) is SetTags:
                facts = self._set_tags(submission)
""",
        ),
        before(
            "def _record(",
            """
    def _set_tags(self, submission: SetTags) -> list[Fact]:
        application = self.applications.get(submission.application_id)
        if application is not None:
            application.tags = application.tags | submission.tags
            application.changed.application(application.application_id)
        return []

""",
        ),
        replaced("submissions import RecordTask, ", "submissions import SetTags, RecordTask, "),
    ],
}


def works() -> None:
    """Check the way from bytes to an application with its tags: rights, errors, large requests, scenarios, journal."""
    import msgspec
    from world import app, make_world, node, queue, tree

    from ykactor.access.model import Identity, Names, Role
    from ykactor.access.permissions import check
    from ykactor.core.turn.turn import Input
    from ykactor.surfaces.cli.history import in_words
    from ykactor.wire.history import decode_cause, encode_cause
    from ykactor.wire.si.codec import JSON, PART_BYTES
    from ykactor.wire.si.requests import submissions

    entry = {"applicationID": "app-1", "tags": {"stage": "2"}}
    told = JSON.decode_request(msgspec.json.encode({"type": "TagApplications", "tagged": [entry]}))
    manager = Identity(name="ci", roles=frozenset({Role.RM}))
    assert check(manager, Role.RM, told) is None
    refusal = check(msgspec.structs.replace(manager, partitions=Names.of(["gpu"])), Role.RM, told)
    assert refusal is not None
    assert refusal.path == "tagged[0].partitionName"
    large = {"type": "TagApplications", "tagged": [entry | {"tags": {"text": "x" * 1000}}] * (PART_BYTES // 1000 + 1)}
    assert len(JSON.decode_request(msgspec.json.encode(large)).tagged) == len(large["tagged"])
    work = submissions(told)["default"]
    cause = decode_cause(encode_cause(Input(work)))
    assert (cause, in_words(cause)) == (Input(work), "the request to tag application app-1")

    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-1", namespace="dev"))
    world.send(*work)
    application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]
    assert application.tags == {"namespace": "dev", "stage": "2"}
