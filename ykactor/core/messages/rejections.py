"""Rejections of entries of requests: a code for programs, and a sentence for people (AP-139)."""

from enum import StrEnum

from msgspec import Struct


class RejectionCode(StrEnum):
    """The codes of rejections (AP-139). ``UNKNOWN``: recorded before there were codes."""

    UNKNOWN = "UNKNOWN"
    NO_PARTITION = "NO_PARTITION"
    NO_APPLICATION = "NO_APPLICATION"
    NO_NODE = "NO_NODE"
    NO_QUEUE = "NO_QUEUE"
    ACL = "ACL"
    QUOTA = "QUOTA"
    SORT_POLICY = "SORT_POLICY"
    LIMIT = "LIMIT"
    DUPLICATE = "DUPLICATE"
    BAD_USER = "BAD_USER"
    NOT_PERMITTED = "NOT_PERMITTED"
    NO_RESOURCES = "NO_RESOURCES"
    NEGATIVE_RESOURCES = "NEGATIVE_RESOURCES"
    NO_TASK_GROUP = "NO_TASK_GROUP"
    BAD_TAG = "BAD_TAG"
    BAD_QUANTITY = "BAD_QUANTITY"
    UNKNOWN_NAME = "UNKNOWN_NAME"
    OUT_OF_RANGE = "OUT_OF_RANGE"


class Rejection(Struct, frozen=True, gc=False):
    """The reason why something is rejected."""

    code: RejectionCode
    reason: str
