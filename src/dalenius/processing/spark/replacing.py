"""What is in the folder of a release already, and whether it may go.

A release may be replaced, and what a killed run left may be removed, if that was asked for. Anything else stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dalenius.errors import OutputError, UsageError
from dalenius.processing.spark.fetching import SparkStore
from dalenius.processing.spark.files import Files
from dalenius.release.manifest import FILE, tables_in

MANIFEST_ASIDE = f".{FILE}.new"

_FOLDER = re.compile(r"(qit|st)-[0-9a-f]{16}")
_LEFT_BEHIND = re.compile(r"(qit|st)-[0-9a-f]{16}/(\.?part-[^/]*|[._][^/]*(/.*)?)?")  # temporary files of Spark too


def replaceable(files: Files, force: bool, own: Collection[str] = ()) -> list[str]:
    """The names of what is in the folder and will be replaced, without our own; an error if it may not be."""
    if files.path is not None and (files.path.is_symlink() or files.path.is_file()):
        raise UsageError("the output path is there already, and is not a folder", "Give another --out.")
    there = [name for name in files.children() or () if name not in own and not _is_aside(name)]
    if not there:
        return []
    if not files.can_remove:
        raise UsageError(
            "there is something in the output folder, and through Spark Connect nothing can be removed",
            "Give another --out, or remove it yourself.",
        )
    if FILE in there and not force:
        raise UsageError("the output folder is there already", "Give another --out, or --force to replace it.")
    if not force and all(_FOLDER.fullmatch(name) for name in there):
        raise UsageError(
            "the output folder has an unfinished release in it, of a run that was stopped or still goes on",
            "Give another --out; or, if no run goes on, --force to remove it.",
        )
    known = {FILE, *_tables(files)} if FILE in there else set()
    for name in files.names():
        ours = name in known or name.partition("/")[0] in own or _is_aside(name) or _LEFT_BEHIND.fullmatch(name)
        if not ours:
            raise UsageError(
                "the output folder is there already, and is not a release: --force replaces releases only",
                "Give another --out, or remove the folder yourself.",
            )
    return there


def content(files: Files, name: str) -> bytes | None:
    """All of a small file; None if there is none."""
    try:
        with SparkStore(files).open(name) as file:
            return file.read()
    except (OSError, OutputError):
        return None


def _is_aside(name: str) -> bool:
    return name in (MANIFEST_ASIDE, f".{MANIFEST_ASIDE}.crc", f".{FILE}.crc")


def _tables(files: Files) -> list[str]:
    """The files of the release that is there, of whatever format."""
    manifest = content(files, FILE)
    return (tables_in(manifest) or []) if manifest is not None else []
