"""Versions in HTTP headers: `ETag` in answers, `If-Match` in requests that are based on one."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Header

from .problems import Problem, invalid_parts

IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description="The ETag of what you have read; refused with 412 if it has changed since."),
]

VERSIONED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "Version of the saved settings.", "schema": {"type": "string"}}}}
}
"""Description of an answer with a version."""

_TAG = re.compile(r'(?:W/)?("?)([0-9]{1,18})\1')
"""One version. Some proxies make an ETag weak, so both kinds are accepted."""


def etag(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the header with the version of settings."""
    return {"ETag": f'"{body["saved_version"]}"'}


def version_of(if_match: str | None, version: int | None = None) -> int | None:
    """Return the version that a request is based on. Raise `Problem` if it names none that can exist, or two."""
    if if_match is None or if_match.strip() == "*":
        return version
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        detail = 'If-Match must be one ETag as the settings are read with, such as "17", or *'
        raise Problem(HTTPStatus.PRECONDITION_FAILED, detail)
    if version is not None and version != int(found[2]):
        raise invalid_parts([(("header", "If-Match"), "differs from the version in the body; send one of them")])
    return int(found[2])
