"""Publishing people who have several rows, or several sensitive values."""

# ruff: noqa: ARG001 (until it is built)

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from dalenius.errors import UsageError
from dalenius.model.progress import Progress
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.published import Release
from dalenius.tables.killable import PrivateFolder

_NOT_BUILT = "publishing people with several rows, or several sensitive columns, is not built yet"


class PeoplePlan(Protocol):
    """What a release of people would cost."""

    @property
    def sentences(self) -> Sequence[str]:
        """For people, a line each."""

    def as_object(self) -> dict[str, Any]:
        """For JSON."""


def publish_people(
    request: PublishRequest,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    temporary: PrivateFolder | None = None,
) -> Release:
    """Publish to a folder, as `publish_request` does."""
    raise UsageError(_NOT_BUILT)


def plan_people(request: PublishRequest, progress: Progress | None = None) -> PeoplePlan:
    """What the release would cost; no release."""
    raise UsageError(_NOT_BUILT)
