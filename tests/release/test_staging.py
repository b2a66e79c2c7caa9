"""What others can see of a release at every moment until it is in its place: nothing."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dalenius.release import atomic, staging
from tests.handmade import hospital


class Watcher:
    """Looks at a folder before every line of the modules that write to it, and so at all that a kill could leave."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.states: set[tuple[str, ...]] = set()
        self.readable: list[str] = []

    def __call__(self, frame: FrameType, _event: str, _argument: Any) -> Watcher | None:
        if frame.f_code.co_filename not in (staging.__file__, atomic.__file__):
            return None
        hidden = [path for path in self._folder.iterdir() if path.name.startswith(".")]
        self.states.add(tuple(sorted(path.name.split(".")[2].split("-")[0] for path in hidden)))
        self.readable += [path.name for path in hidden if stat.S_IMODE(path.stat().st_mode) & 0o077]
        return self


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
@pytest.mark.parametrize("replaced", [False, True])
def test_nobody_else_may_enter_what_is_not_in_its_place(replaced: bool, mask: int, tmp_path: Path) -> None:
    target = tmp_path / "release"
    before_mask = os.umask(mask)
    try:
        if replaced:
            hospital().write(target)
        watcher = Watcher(tmp_path)
        before = sys.gettrace()
        sys.settrace(watcher)
        try:
            with staging.staging(target, replaced) as stage:
                (stage.folder / "qit").mkdir()
                (stage.folder / "qit" / "part-00000.parquet").write_bytes(b"new")
                (stage.folder / "manifest.json").write_bytes(b"new")
                stage.commit(replaced)
        finally:
            sys.settrace(before)
    finally:
        os.umask(before_mask)
    assert watcher.readable == []
    assert {("new",), ("staging",), ("ready",)} <= watcher.states  # all of it was seen
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~mask
    files, folders = 0o666 & ~mask, 0o777 & ~mask
    assert modes(target) == {"qit": folders, "qit/part-00000.parquet": files, "manifest.json": files}


def test_an_interrupt_anywhere_leaves_the_old_release_or_the_new_one(tmp_path: Path) -> None:
    """At every line of the commit, one after the other."""
    parent = tmp_path / "parent"

    def commit_with_an_interrupt_at(line: int) -> bool:
        target = hospital().write(parent / "release")
        lines = 0

        def interrupt(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal lines
            if frame.f_code.co_name not in ("commit", "_enclose", "exchange"):
                return interrupt if frame.f_code.co_filename == staging.__file__ else None
            lines += event == "line"
            if event == "line" and lines == line:
                raise KeyboardInterrupt
            return interrupt

        try:
            with staging.staging(target, replace=True) as stage:
                (stage.folder / "manifest.json").write_bytes(b"new")
                before = sys.gettrace()
                sys.settrace(interrupt)
                try:
                    stage.commit(replace=True)
                finally:
                    sys.settrace(before)
        except KeyboardInterrupt:
            pass
        else:
            return False
        there = sorted(path.name for path in target.iterdir())
        assert there in (["manifest.json"], ["manifest.json", "qit.parquet", "st.parquet"])
        assert [path.name for path in parent.iterdir()] == ["release"]
        return True

    line = 1
    while commit_with_an_interrupt_at(line):
        line += 1
    assert line > 10
