"""Studio on this machine: a socket on 127.0.0.1, the address with its token, the browser, and an orderly end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from dalenius.errors import InputError, UsageError
from dalenius.studio.app import complain, make_app
from dalenius.studio.guard import Keys
from dalenius.studio.state import Studio, StudioOptions
from dalenius.tables.killable import PrivateFolder

_LOOPBACK = "127.0.0.1"  # and nothing else: there is no option for another address


def serve(options: StudioOptions, port: int, announce: Callable[[str, int], None], browser: bool) -> None:
    """Run until somebody ends it. `announce` gets the address and the port."""
    _check(options)
    with listening(port) as listener, _private_scratch() as private:
        port = int(listener.getsockname()[1])
        studio, keys = Studio(options, private), Keys(port)
        try:
            with suppress(KeyboardInterrupt):  # that is how it ends
                server = server_of(studio, keys, port)
                announce(_url(port, keys.token), port)
                if browser and _has_display():
                    url = _url(port, keys.once())
                    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
                server.run(sockets=[listener])
        finally:
            ended = studio.close()
        left = studio.has_leftovers()
        complain(f"stopped; {'some temporary files could not be' if left else 'all temporary files were'} removed.")
        if not ended:  # a solver is still working, and would keep the program from ending
            sys.stdout.flush()
            os._exit(0)


def _check(options: StudioOptions) -> None:
    """Refuse now what would fail later."""
    if options.table is not None and not options.table.is_file():
        raise InputError("there is no file at the path given", "Check the path.")
    if options.table_name is not None and options.table is None:
        raise UsageError("--table is for a DuckDB file given as TABLE", "Give TABLE, or leave it out.")
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise UsageError("the path given as --out exists and is not a folder", "Give another --out.")


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket that only this machine can reach. Port 0 means any free port."""
    # without the protocol, asyncio leaves Nagle's algorithm on, and answers take 40 ms longer
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, port))
            listener.listen()
        except OSError as error:
            raise UsageError(f"port {port} is not available: {error.strerror}", "Leave --port out.") from None
        yield listener


@contextmanager
def _private_scratch() -> Iterator[PrivateFolder]:
    """The private folder. All other temporary files go into it as well, and are removed with it."""
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    private = PrivateFolder("studio-")
    tempfile.tempdir = os.environ["TMPDIR"] = str(private.folder("scratch"))
    try:
        yield private
    finally:
        tempfile.tempdir = before
        os.environ.pop("TMPDIR")
        if variable is not None:
            os.environ["TMPDIR"] = variable
        private.remove()


class _Server(uvicorn.Server):
    """A server that ends all counts before it waits for the answers that are under way."""

    def __init__(self, config: uvicorn.Config, studio: Studio) -> None:
        super().__init__(config)
        self._studio = studio

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close in good order."""
        self._studio.counting.close()
        await super().shutdown(sockets)


def server_of(studio: Studio, keys: Keys, port: int) -> uvicorn.Server:
    """The server of a Studio. It writes nothing to the terminal."""

    def stop(*_signal: object) -> None:
        server.should_exit = True

    app = make_app(studio, keys, port, stop)
    server = _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="critical",  # nothing of a request, least of all a token, goes to the terminal
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        ),
        studio,
    )
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a browser that goes away must not end Studio
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            signal.signal(signal.SIGHUP, stop)
    return server


def _url(port: int, token: str) -> str:
    return f"http://{_LOOPBACK}:{port}/?token={token}"


def _has_display() -> bool:
    """Whether a browser can open a window. One in the terminal would be in the way."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
