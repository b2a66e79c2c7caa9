"""The memory and the processor time of this process, of its Java and of Java's Python workers, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.2  # seconds between two looks
_MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it; `reaped` is the processor time of children that have ended."""

    pid: int
    parent: int
    name: str
    cpu: float
    reaped: float
    memory: int


def _processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                name, _, rest = (entry / "stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
                found = rest.split()
                user, system, reaped_user, reaped_system = (int(ticks) / _TICKS for ticks in found[11:15])
                yield Process(
                    int(entry.name),
                    int(found[1]),
                    name,
                    user + system,
                    reaped_user + reaped_system,
                    int(found[21]) * _PAGE,
                )


def family() -> tuple[Process, list[Process], list[Process]]:
    """This process, the Java processes below it, and what these have started."""
    by_parent: dict[int, list[Process]] = {}
    this = Process(os.getpid(), 0, "", 0.0, 0.0, 0)
    for process in _processes():
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid == this.pid:
            this = process
    java = [process for process in by_parent.get(this.pid, []) if process.name == "java"]
    workers: list[Process] = []
    waiting = [child for process in java for child in by_parent.get(process.pid, [])]
    while waiting:
        process = waiting.pop()
        workers.append(process)
        waiting += by_parent.get(process.pid, [])
    return this, java, workers


def processor_seconds() -> dict[str, float]:
    """Of the driver, of Java, and of all Python workers, those that have ended included."""
    driver, java, workers = family()
    return {
        "driver": driver.cpu,
        "java": sum(process.cpu for process in java),
        "workers": sum(process.cpu + process.reaped for process in workers) + sum(process.reaped for process in java),
    }


class Peaks(threading.Thread):
    """Looks at memory every moment, and keeps the most that was seen."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._enough = threading.Event()
        self.mib = {"driver": 0.0, "java": 0.0, "worker": 0.0}

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._enough.wait(_EVERY):
            driver, java, workers = family()
            seen = {
                "driver": driver.memory,
                "java": max((process.memory for process in java), default=0),
                "worker": max((one.memory for one in workers if one.name.startswith("python")), default=0),
            }
            self.mib = {name: max(most, seen[name] / _MIB) for name, most in self.mib.items()}

    def __enter__(self) -> Peaks:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join()
