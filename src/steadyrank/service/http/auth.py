"""Authentication and authorization: API keys with scopes, and what is allowed without a key."""

import functools
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from ...core.refusals import Refused
from ..storage import Key

SCOPES = ("rank", "feedback", "observe", "admin")  # admin includes all others
_PREFIX = "sr"
LOCAL_CALLER = "this machine"  # the caller's id while there are no keys
_LONGEST_HOST = 300
_FORWARDED = "x-forwarded-"  # prefix of headers that proxies add; `read_headers` keeps it as a marker for all of them
_PROXIES = frozenset(
    ["forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip"]
    + ["true-client-ip", "cf-connecting-ip", "fastly-client-ip"]
)
_PAGES = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")  # browsers send these
_FETCHES = ("node", "undici")  # user agents of Node's `fetch`, which sends one of these headers: sec-fetch-mode

_READ = frozenset(
    name.encode()
    for name in ("authorization", "host", "user-agent", *_PAGES, *_PROXIES, "content-length", "content-type")
)
_LONGEST_VALUE = 1_000  # characters kept of a header; keys and addresses are shorter


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Extract the headers that the service uses, truncated."""
    wanted = {}
    for name, value in headers:
        if name in _READ:
            wanted[name.decode("latin-1")] = value[:_LONGEST_VALUE].decode("latin-1")
        elif name.startswith(_FORWARDED.encode()):
            wanted[_FORWARDED] = ""  # its presence is enough
    return wanted


def make_key(scopes: Sequence[str], board: str | None, now: float, expires: float | None = None) -> tuple[str, Key]:
    """Make a key: the text for its owner, and the record to store. 256 random bits need no slow hash."""
    for scope in scopes:
        if scope not in SCOPES:
            raise ValueError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
    if not scopes:
        raise ValueError(f"a key needs at least one scope: {', '.join(SCOPES)}")
    name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    stored = Key(name, _hash(secret), " ".join(sorted(set(scopes))), board, now, None, expires)
    return f"{_PREFIX}.{name}.{secret}", stored


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def loopback(host: str) -> bool:
    """Return whether an address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@functools.lru_cache(1_000)
def _is_local_host(host: str) -> bool:
    """Return whether the Host header names this machine by a loopback name or address."""
    try:
        return len(host) <= _LONGEST_HOST and loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _is_proxied(headers: Mapping[str, str]) -> bool:
    """Return whether a request came through a proxy, judged by its headers."""
    return any(name in _PROXIES or name.startswith(_FORWARDED) for name in headers)


def _is_browser(headers: Mapping[str, str]) -> bool:
    """Return whether a browser sent a request, by the headers of modern browsers or the user agent of older ones."""
    pages = [name for name in _PAGES if name in headers]
    if pages == ["sec-fetch-mode"] and headers.get("user-agent") in _FETCHES:
        return False
    return bool(pages) or headers.get("user-agent", "").startswith("Mozilla/")


def _is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a browser's request comes from a page of this server, or from the address bar."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return False
    return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


class Auth:
    """Authorizes requests: by a key with the required scope, or on loopback as long as there are no keys.

    `token`: what a browser must send instead of a key while there is none; if empty, no browser is allowed.
    """

    def __init__(
        self, keys: Callable[[], Sequence[Key]], token: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._token, self._clock = keys, token, clock

    def check(self, headers: Mapping[str, str], scope: str, board: str | None, some: bool = False) -> str:
        """Authorize a request and return the id of its key.

        Raises Refused: 401 without a key, 403 if it is not enough.

        `some`: a key for any single board is enough.
        """
        keys = self._keys()
        if not keys:
            self._check_local(headers)
            return LOCAL_CALLER
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not given:
            raise Refused(401, "an API key is needed: Authorization: Bearer KEY")
        key = self._find(keys, given.strip())
        if key.board is not None and key.board != board and not some:
            raise Refused(403, "this API key is for another board")
        scopes = key.scopes.split()
        if scope not in scopes and "admin" not in scopes:
            raise Refused(403, f"this API key lacks the scope {scope!r}")
        return key.id

    def permits(self, headers: Mapping[str, str], scope: str, board: str | None, some: bool = False) -> bool:
        """Return whether a request may do this."""
        try:
            self.check(headers, scope, board, some)
        except Refused:
            return False
        return True

    def has_key(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a valid key with any scope."""
        return any(self.permits(headers, scope, None, some=True) for scope in ("rank", "feedback"))

    def _find(self, keys: Sequence[Key], given: str) -> Key:
        prefix, _, rest = given.partition(".")
        name, _, secret = rest.partition(".")
        hashed, own = _hash(secret), None
        for key in keys:
            if key.id == name and hmac.compare_digest(key.hash, hashed) and prefix == _PREFIX:
                own = key
        if own is None or not own.works(self._clock()):
            raise Refused(401, "this API key is unknown, was revoked or has expired")
        return own

    def _check_local(self, headers: Mapping[str, str]) -> None:
        """Allow local requests without keys, but none that come through a proxy or from another web page.

        Scripts of other sites can reach loopback, under any name, and so can pages of other programs on this machine;
        so a browser must also know the token printed when the server was started.
        """
        if not _is_local_host(headers.get("host", "")) or _is_proxied(headers) or not _is_same_origin(headers):
            raise Refused(
                403, "without API keys only this machine is served: create one with `steadyrank keys create`"
            )
        if _is_browser(headers):
            _, _, given = headers.get("authorization", "").partition(" ")
            if not self._token or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
                raise Refused(401, "open the address with the token that `steadyrank serve` printed at its start")
