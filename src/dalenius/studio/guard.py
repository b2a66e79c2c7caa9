"""Who may ask, checked before anything else: this machine's own browser, with the token or the cookie.

1. The Host must be this server's own, so that a name that somebody pointed at 127.0.0.1 does not work (DNS rebinding).
2. Requests from other sites are refused where the browser says so (Sec-Fetch-Site), and a request that changes anything
   needs this server's own Origin.
3. The token in the start URL gives a cookie. Without the cookie nothing is served, not even a style sheet.

Every answer, even an error, carries headers that keep the browser from storing it, from running inline scripts or
scripts of another origin, and from showing it in a frame of another site.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dalenius.studio.messages import RequestError, error_answer
from dalenius.studio.pages import Pages, is_for_scripts

FIRST_PAGE = "/table"
_SAFE_METHODS = ("GET", "HEAD")
_OWN = ("same-origin", "none")  # what Sec-Fetch-Site may say
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; frame-src 'self'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# A page rather than a redirect: the browser would take a redirect for the other site's, and send no cookie.
_CONTINUE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={0}">'
    '<title>Studio</title><p><a href="{0}">Continue to Studio</a></p>'
)


class Keys:
    """The token of the start URL, which works again and again, tokens that work once, and the value of the cookie."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.cookie_name = f"dalenius-{port}"
        self.cookie = secrets.token_urlsafe(32)
        self._once: set[str] = set()
        self._lock = threading.Lock()

    def once(self) -> str:
        """A token for one use: other programs on this machine can see the address that a browser is started with."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._once.add(token)
        return token

    def opens(self, token: str) -> bool:
        """Whether a token is one of ours."""
        if _same(token, self.token):
            return True
        with self._lock:
            match = next((once for once in self._once if _same(token, once)), None)
            self._once.discard(match or "")
        return match is not None

    def knows(self, headers: Headers) -> bool:
        """Whether a request has the cookie."""
        pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
        return any(name == self.cookie_name and _same(value, self.cookie) for name, _, value in pairs)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())


class Guard:
    """Pure ASGI: stands before the application, and sees every request and every answer."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int, pages: Pages, complain: Callable[[str], None]) -> None:
        """`complain` gets a sentence about every unexpected error."""
        self._app, self._keys, self._pages, self._complain = app, keys, pages, complain
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or refuse."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message)
            await send(message)

        request = Request(scope, receive)
        try:
            refusal = self._refusal(request)
            if refusal is not None:
                await refusal(scope, receive, guarded)
            else:
                await self._app(scope, receive, guarded)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception as error:  # noqa: BLE001 (its message may quote data, so only its type is shown)
            self._complain(f"unexpected {type(error).__name__} in {request.method} {_kind_of_path(scope['path'])}")
            if not started:
                await self._pages.bug(scope["path"], error)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that is refused, or that gives the token; None for one that may pass."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return self._refuse(request, 421, "wrong-host", "this server answers only to 127.0.0.1 and localhost")
        if "upgrade" in request.headers:
            return self._refuse(request, 403, "forbidden", "there are no websockets here")
        own = all(site in _OWN for site in request.headers.getlist("sec-fetch-site"))
        token = _token(request)
        if token is not None and self._keys.opens(token):
            return self._open(own)
        if not own:
            return self._refuse(request, 403, "forbidden", "requests from other sites are refused")
        if not self._keys.knows(request.headers):
            return self._refuse(
                request,
                403,
                "forbidden",
                "this browser has not given the token",
                "Open the address that 'dalenius studio' printed at the start, with its token.",
            )
        if not _is_harmless(request, hosts[0]):
            return self._refuse(request, 403, "forbidden", "requests from other sites are refused")
        return None

    def _open(self, own: bool) -> Response:
        answer = RedirectResponse(FIRST_PAGE, 303) if own else HTMLResponse(_CONTINUE.format(FIRST_PAGE))
        answer.set_cookie(self._keys.cookie_name, self._keys.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def _refuse(self, request: Request, status: int, kind: str, message: str, hint: str | None = None) -> Response:
        if is_for_scripts(request.scope["path"]):
            return error_answer(RequestError(status, kind, message, hint))
        return self._pages.error(status, "No access" if status == 403 else "Wrong address", message, hint)


def _is_harmless(request: Request, host: str) -> bool:
    """Whether a request changes nothing, or comes from a page of this server."""
    return request.method in _SAFE_METHODS or request.headers.getlist("origin") == [f"http://{host}"]


def _token(request: Request) -> str | None:
    """The token in the start URL, if this is a request for it."""
    if request.method != "GET" or request.scope["path"] != "/":
        return None
    tokens = parse_qs(request.scope["query_string"].decode("latin-1")).get("token", [])
    return tokens[0] if len(tokens) == 1 else None


def _kind_of_path(path: str) -> str:
    """Which part of the application, without IDs."""
    return "/".join(path.split("/")[:3]) if path.startswith("/api/") else "/" + path.split("/")[1]


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
