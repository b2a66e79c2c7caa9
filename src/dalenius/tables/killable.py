"""Work that may be killed at any moment: in a child process with a budget, in temporary folders that nobody leaves.

Nothing interrupts DuckDB within a function of text or a regular expression, and its memory limit does not cover the
text that they make. So counts that somebody waits for run in a process of their own. Its parent watches it, and kills
it when it exceeds its `Allowance`, when the parent is interrupted, or when nobody wants the answer any more. If the
parent is killed, the child ends too: it holds the other end of a pipe that closes then.

- `in_child` forks. That takes milliseconds, and is for a program that has not started any thread.
- `in_new_process` starts an interpreter, for programs of others.
- `Watch` is for those who have a process already.

A temporary folder has a lock, which is free once its program is gone, however it ended. Whoever makes a temporary
folder first removes those that were left behind.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeVar

from dalenius.errors import DaleniusError, MemoryLimitError, SolverError, TimeLimitError, UsageError

if TYPE_CHECKING:
    import subprocess

SECONDS = 300.0  # for one count
LEAST_MEMORY = 256 * 2**20  # the program and its libraries alone take up to 200 MiB
_ENGINE_MEMORY = 2 * 10**9  # bytes that DuckDB takes at most
_POLL = 0.05  # seconds between looks at a process
_CHUNK = 2**16
_HEAD = 8  # bytes that say how long a message is

Result = TypeVar("Result")


@dataclass(frozen=True)
class Allowance:
    """What one count, or other work, may take: seconds, and bytes for the whole process. None means no limit.

    On systems without /proc, only DuckDB's own part of the memory is limited.
    """

    seconds: float | None = SECONDS
    memory: int | None = None
    what: str = "the count"

    @classmethod
    def of(cls, seconds: float | None, memory: int | None) -> Allowance:
        """The allowance that somebody asks for; 0 seconds means no limit."""
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise UsageError(f"--timeout needs a number of seconds, got {seconds}", "0 means no limit.")
        if memory is not None and memory < LEAST_MEMORY:
            raise UsageError(
                f"{memory // 2**20:,} MiB of memory are too little to count",
                f"Give --memory {LEAST_MEMORY // 2**20}MiB or more.",
            )
        return cls(seconds or None, memory)

    @property
    def engine(self) -> str:
        """What DuckDB may take before it uses the disk, as it writes sizes."""
        return f"{_ENGINE_MEMORY if self.memory is None else min(_ENGINE_MEMORY, self.memory // 2)}B"


class Watch:
    """Whether a process still keeps to its allowance. The time is that since the last restart."""

    def __init__(self, process: int, allowance: Allowance) -> None:
        self._process, self._allowance = process, allowance
        self.restart()

    def restart(self) -> None:
        """Something new begins."""
        self._began = time.monotonic()

    def overrun(self) -> DaleniusError | None:
        """The error if the process takes more than it may."""
        seconds, memory = self._allowance.seconds, self._allowance.memory
        if seconds is not None and time.monotonic() - self._began > seconds:
            return TimeLimitError(
                f"{self._allowance.what} took more than {seconds:g} seconds, and was stopped",
                "Ask for something simpler, or give a larger --timeout (0 means no limit).",
            )
        if memory is not None and _memory_of(self._process) > memory:
            return out_of_memory(memory, self._allowance.what)
        return None

    def wait(self, source: int) -> None:
        """Wait until there is something to read; an error if the process takes more than it may before that."""
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while not poll.poll(1000 * _POLL):
            if (error := self.overrun()) is not None:
                raise error


def out_of_memory(memory: int | None = None, what: str = "the count") -> MemoryLimitError:
    """The error for a count, or other work, that needs more memory than it may have."""
    much = "than there is" if memory is None else f"than {memory // 2**20:,} MiB"
    return MemoryLimitError(
        f"{what} needs more memory {much}, and was stopped",
        "Ask for fewer groups, or for less text in one value, or give a larger --memory.",
    )


def _memory_of(process: int) -> int:
    """The memory that a process takes now; 0 if nobody can say."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def in_child(work: Callable[[], Iterable[Result]], allowance: Allowance) -> Iterator[Result]:
    """What `work` yields in a forked process; each item has its own time. Its errors are raised here."""
    answers, answer = os.pipe()
    alive, life = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads of others, for which the child never waits
        child = os.fork()
    if child == 0:
        os.close(answers)
        os.close(life)
        _work(work, answer, alive)
    os.close(answer)
    os.close(alive)
    try:
        yield from _items(answers, Watch(child, allowance))
    except EOFError:
        _, status = os.waitpid(child, 0)
        child = 0
        raise _ended(os.waitstatus_to_exitcode(status), allowance) from None
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            remove_left_behind()  # what it had no time to remove
        os.close(answers)
        os.close(life)


def in_new_process(function: Callable[..., Result], *arguments: Any, allowance: Allowance) -> Result:
    """What a function of a module returns in a new process."""
    with python_process("from dalenius.tables.killable import serve; serve()") as process:
        assert process.stdin is not None  # noqa: S101 (both are pipes)
        assert process.stdout is not None  # noqa: S101
        try:
            with suppress(BrokenPipeError):
                pickle.dump((function, arguments), process.stdin)
                process.stdin.flush()
            result: Result = next(_items(process.stdout.fileno(), Watch(process.pid, allowance)))
        except EOFError:
            raise _ended(process.wait(), allowance) from None
        finally:
            process.kill()
        return result


def python_process(program: str, **environment: str) -> subprocess.Popen[bytes]:
    """A new Python with pipes, in a session of its own, so that Ctrl-C in a terminal does not reach it."""
    import subprocess  # here, because whoever forks does not need it

    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-P", "-c", program],  # -P: nothing is imported from the current folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **environment, "PYTHONPATH": paths},
    )


def serve() -> None:
    """The other end of `in_new_process`."""
    answer = private_output()
    function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the parent process)
    _work(lambda: [function(*arguments)], answer, sys.stdin.fileno())


def private_output() -> int:
    """A descriptor of standard output, to which nobody else writes from here on: what a library prints is no answer."""
    answer = os.dup(sys.stdout.fileno())
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return answer


def _work(work: Callable[[], Iterable[Any]], answer: int, alive: int) -> NoReturn:
    """Do the work in this process, and end it. It ends before that when `alive` is closed at the other end."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and decides
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
        with os.fdopen(answer, "wb") as stream:
            try:
                for item in work():
                    send(stream, ("item", item))
                send(stream, ("done", None))
            except BaseException as error:  # noqa: BLE001 (whatever it is, somebody is waiting)
                send(stream, ("error", _portable(error)))
    finally:
        os._exit(0)


def _end_with(alive: int) -> None:
    while os.read(alive, _CHUNK):
        pass
    os._exit(0)


def _portable(error: BaseException) -> BaseException:
    """The error as it can be sent; one that Dalenius did not raise also says where it happened."""
    if isinstance(error, MemoryError):
        return out_of_memory()
    if not isinstance(error, DaleniusError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    except Exception:  # noqa: BLE001 (anything may go wrong)
        return RuntimeError(type(error).__name__)
    return error


def send(stream: IO[bytes], content: object) -> None:
    """Send something to another process, which may `receive` it."""
    message = pickle.dumps(content)
    stream.write(len(message).to_bytes(_HEAD) + message)
    stream.flush()


def _items(source: int, watch: Watch) -> Iterator[Any]:
    """The items that a process sends; its error is raised. EOFError if it ends before it is done."""
    while True:
        kind, content = receive(source, watch)
        if kind == "error":
            raise content
        if kind == "done":
            return
        yield content
        watch.restart()


def receive(source: int, watch: Watch) -> Any:
    """What a watched process sends. EOFError if it ends before."""
    size = int.from_bytes(_read(source, _HEAD, watch))
    return pickle.loads(_read(source, size, watch))  # noqa: S301 (from a process of our own)


def _read(source: int, size: int, watch: Watch) -> bytes:
    received = bytearray()
    while len(received) < size:
        watch.wait(source)
        chunk = os.read(source, min(_CHUNK, size - len(received)))
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)


def _ended(code: int, allowance: Allowance) -> DaleniusError:
    """The error for a process that ended without an answer."""
    if code == -signal.SIGKILL:  # that is how a system without memory ends processes
        return out_of_memory(allowance.memory)
    return SolverError(f"the process that counted ended early ({code})", "This is probably a bug in Dalenius.")


_PREFIX = "dalenius-"
_LOCK = ".lock"
_LONG_AGO = 24 * 3600.0  # seconds
_ATTEMPTS = 3
_BETWEEN_ATTEMPTS = 0.1  # seconds


class PrivateFolder:
    """A temporary folder that nobody else can read, with a lock in it. It is removed at exit, if not before."""

    def __init__(self, purpose: str = "") -> None:
        remove_left_behind()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}"))  # 0700
        self._lock = (self.path / f"{_LOCK}-new").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{_LOCK}-new").rename(self.path / _LOCK)  # so a lock with the final name is always held
        atexit.register(self.remove)

    def folder(self, name: str) -> Path:
        """A folder inside, created if necessary."""
        path = self.path / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def exists(self) -> bool:
        """Whether it still exists."""
        return os.path.lexists(self.path)

    def remove(self) -> None:
        """Remove it with all its content."""
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.exists():
                break
            time.sleep(_BETWEEN_ATTEMPTS)  # a thread that is ending may have written something
        self._lock.close()
        atexit.unregister(self.remove)


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A private folder for as long as it is needed."""
    folder = PrivateFolder()
    try:
        yield str(folder.path)
    finally:
        folder.remove()


def remove_left_behind() -> None:
    """Remove temporary folders whose programs are gone: their locks are free. Others are not touched.

    A program may be killed before its folder has a lock. Such a folder holds nothing, and is removed a day later.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            if (folder / _LOCK).is_file():
                with (folder / _LOCK).open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            elif time.time() - folder.stat().st_mtime > _LONG_AGO:
                (folder / f"{_LOCK}-new").unlink(missing_ok=True)
                folder.rmdir()
