"""Runs cases one after the other, and says so: a line with the number before each, and one with what went wrong."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import sys
import tempfile
import traceback
from pathlib import Path
from random import Random

MOST_RESIDENT = 3 * 2**29  # bytes that a process may take: the memory it gives to commands, and itself


def the_input(target: str, seed: int, number: int, scratch: Path) -> bytes:
    """The input of a case, the same wherever it is made."""
    from fuzz.releases import Releases
    from fuzz.targets import TARGETS

    return TARGETS[target].make(Random(f"{seed}-{target}-{number}"), Releases(scratch))  # noqa: S311


def _run(target: str, seed: int, numbers: range, replay: str | None) -> None:
    os.environ["DALENIUS_TRACEBACK"] = "1"
    with tempfile.TemporaryDirectory(prefix="dalenius-fuzz-") as folder:
        from fuzz.releases import Releases
        from fuzz.targets import TARGETS

        releases, chosen = Releases(Path(folder)), TARGETS[target]
        for number in numbers:
            random = Random(f"{seed}-{target}-{number}")  # noqa: S311
            content = Path(replay).read_bytes() if replay is not None else chosen.make(random, releases)
            _say(f"case {number}")
            try:
                chosen.run(content, releases)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 (whatever it is, it is what was looked for)
                _say(f"failed {_in_a_line(error)}")
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_RESIDENT:
                _say("failed more memory than it was given")
                return


def _in_a_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = next((frame for frame in reversed(frames) if "dalenius" in frame.filename), frames[-1])
    first = re.sub(r"[0-9]+|'[^']*'", "#", " ".join(str(error).splitlines()[:1]))  # so that alike is alike
    return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {first[:120]}"


def _say(line: str) -> None:
    os.write(_OUT, f"{line}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    faulthandler.enable()
    _OUT = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _target, _seed, _first, _count, *_replay = sys.argv[1:]
    _run(_target, int(_seed), range(int(_first), int(_first) + int(_count)), _replay[0] if _replay else None)
