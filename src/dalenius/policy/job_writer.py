"""Job files as text: what `policy.job` reads, written."""

from __future__ import annotations

from typing import Any

from dalenius.errors import MissingExtraError
from dalenius.policy.job import Job


def job_text(job: Job) -> str:
    """The TOML text of a job; reading it gives the same job. What is not set is left out."""
    try:
        import tomli_w
    except ImportError:
        raise MissingExtraError.of("tomli-w", "web") from None
    sections = {name: _given(section) for name, section in job.model_dump().items()}
    return tomli_w.dumps({name: section for name, section in sections.items() if section}, multiline_strings=False)


def _given(section: dict[str, Any]) -> dict[str, Any]:
    """Without what was left open. TOML wants tables last, and there is one: the limits by value."""
    kept = {key: value for key, value in section.items() if value is not None and value not in ([], {})}
    return {key: str(value) if key == "method" else value for key, value in kept.items()}
