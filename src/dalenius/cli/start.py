"""Where the installed command begins, before anything large is imported, and where it ends.

A Ctrl-C while modules are imported would be shown as an error in whichever of them it hits, and so would one while
Python shuts down. There is nothing to clean up then: the program just leaves. In between, `failures` says what a Ctrl-C
does. Nothing can be done about one in the moment before this module is reached.
"""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130


def entry() -> None:
    """Run the program, as the installed command does."""
    _leave_at(signal.SIGINT, code=_INTERRUPTED)
    from dalenius.cli.main import entry as run

    try:
        run()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        for number in (signal.SIGINT, signal.SIGTERM):
            _leave_at(number, code=code)
        raise


def _leave_at(number: signal.Signals, code: int) -> None:
    """End at once, with this exit code, when the signal comes; unless it is ignored, as behind nohup."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda *_: os._exit(code))
