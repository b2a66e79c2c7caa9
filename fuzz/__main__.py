"""Watches the processes that run cases: `python -m fuzz --help`."""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.targets import TARGETS
from fuzz.worker import MOST_RESIDENT, the_input

_LONGEST = 10.0  # processor seconds of a case: others may be busy on this machine
_PATIENCE = 12  # times as long by the clock, for one that waits
_FIRST = 120.0  # seconds until the first one starts
_AT_ONCE = 2000  # cases of a process, after which a new one starts
_PAGE = 4096


@dataclass
class Tally:
    """What came of all cases."""

    failures: Path
    cases: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, target: str, seed: int, number: int, why: str) -> None:
        """Remember a failure, and its input if it is the first of its kind."""
        with self.lock:
            kind = f"{target}: {why}"
            self.failed[kind] += 1
            if self.failed[kind] > 1:
                return
            self.kept += 1
            self.failures.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="dalenius-fuzz-") as scratch:
                content = the_input(target, seed, number, Path(scratch))
            path = self.failures / f"{target}-{seed}-{number}"
            path.write_bytes(content)
            print(f"FAILED {kind}\n  kept as {path}", flush=True)


def run_cases(target: str, seed: int, numbers: range, deadline: float, tally: Tally) -> None:
    """Run cases in one process after another."""
    first = numbers.start
    while first < numbers.stop and time.monotonic() < deadline:
        first = _one_process(target, seed, range(first, min(first + _AT_ONCE, numbers.stop)), deadline, tally)


def _one_process(target: str, seed: int, numbers: range, deadline: float, tally: Tally) -> int:
    """Run cases until the process ends or has to be ended; gives the case to go on with."""
    words = [sys.executable, "-m", "fuzz.worker", target, str(seed), str(numbers.start), str(len(numbers))]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    assert process.stdout is not None  # noqa: S101
    number, why = numbers.start - 1, None
    used, until = _FIRST, time.monotonic() + _FIRST  # until the first case starts
    try:
        while why is None and time.monotonic() < deadline:
            ready, _, _ = select.select([process.stdout], [], [], 0.2)
            line = process.stdout.readline().decode("utf-8", "replace").rstrip() if ready else ""
            if line.startswith("case "):
                number, used = int(line[5:]), _used(process.pid)
                until = time.monotonic() + _PATIENCE * _LONGEST
                tally.cases[target] += 1
            elif line.startswith("failed "):
                tally.keep(target, seed, number, line[7:])
            elif ready and not line:
                code = process.wait()
                if code == 0:
                    return number + 1
                why = f"the process ended with {code}"
            elif _used(process.pid) - used > _LONGEST or time.monotonic() > until:
                why = f"more than {_LONGEST:.0f} seconds"
            elif _resident(process.pid) > MOST_RESIDENT:
                why = "more memory than it was given"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if why is not None:
        tally.keep(target, seed, number, why)
    return number + 1


def _used(process: int) -> float:
    """Processor seconds of a process and of its threads."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def main(words: Sequence[str] | None = None) -> int:
    """Fuzz; exit code 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Random input for whatever reads files.")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this; repeatable")
    parser.add_argument("--cases", type=int, default=2_000, help="cases of each target (default 2000)")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so many (default 600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="folder for inputs that failed")
    parser.add_argument("--replay", type=Path, help="run one input that was kept")
    chosen = parser.parse_args(words)
    if chosen.replay is not None:
        target = chosen.replay.name.split("-")[0]
        return subprocess.call([sys.executable, "-m", "fuzz.worker", target, "0", "0", "1", str(chosen.replay)])
    tally = Tally(chosen.failures)
    start = time.monotonic()
    names = chosen.target or list(TARGETS)
    step = -(-chosen.cases // max(1, chosen.jobs))
    pieces = [(name, range(at, min(at + step, chosen.cases))) for name in names for at in range(0, chosen.cases, step)]
    _in_threads(pieces, chosen.seed, start + chosen.seconds, chosen.jobs, tally)
    seconds = time.monotonic() - start
    total = tally.cases.total()
    print(f"{total:,} cases in {seconds:,.0f} s ({total / seconds:,.0f} a second): {dict(tally.cases)}")
    for kind, number in tally.failed.most_common():
        print(f"{number:6,} times  {kind}")
    return 1 if tally.failed else 0


def _in_threads(pieces: list[tuple[str, range]], seed: int, deadline: float, jobs: int, tally: Tally) -> None:
    waiting = iter(pieces)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            run_cases(piece[0], seed, piece[1], deadline, tally)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
