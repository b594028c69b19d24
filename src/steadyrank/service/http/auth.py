"""Who may do what: API keys with scopes, and what is open without one."""

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

SCOPES = ("rank", "feedback", "observe", "admin")  # admin may do everything
_PREFIX = "sr"
HERE = "this machine"  # who asks before there is a key
_LONGEST_HOST = 300
_PROXIES = frozenset(
    ["forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip"]
    + ["true-client-ip", "cf-connecting-ip", "fastly-client-ip"]
)
_PAGES = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")  # browsers send these
_FETCHES = ("node", "undici")  # what Node's `fetch` calls itself, which sends one of them: sec-fetch-mode

_READ = frozenset(
    name.encode()
    for name in ("authorization", "host", "user-agent", *_PAGES, *_PROXIES, "content-length", "content-type")
)
_LONGEST_VALUE = 1_000  # characters of a header that are kept; keys and addresses have fewer


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The beginnings of the headers that are read."""
    wanted = {}
    for name, value in headers:
        if name in _READ:
            wanted[name.decode("latin-1")] = value[:_LONGEST_VALUE].decode("latin-1")
        elif name.startswith(b"x-forwarded-"):
            wanted["x-forwarded-"] = ""  # that there is one says enough
    return wanted


def make_key(scopes: Sequence[str], board: str | None, now: float, expires: float | None = None) -> tuple[str, Key]:
    """A new key as its owner keeps it, and as it is stored: 256 random bits need no slow hash."""
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
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@functools.lru_cache(1_000)
def _at_home(host: str) -> bool:
    """Whether a request was sent to this machine by its name or address."""
    try:
        return len(host) <= _LONGEST_HOST and loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _forwarded(headers: Mapping[str, str]) -> bool:
    """Whether a request came through a proxy, as far as its headers say."""
    return any(name in _PROXIES or name.startswith("x-forwarded-") for name in headers)


def _from_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sent a request: those of today say from where, older ones at least that they are one."""
    pages = [name for name in _PAGES if name in headers]
    if pages == ["sec-fetch-mode"] and headers.get("user-agent") in _FETCHES:
        return False
    return bool(pages) or headers.get("user-agent", "").startswith("Mozilla/")


def _own_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser's request comes from a page of this very server, or from its address bar."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return False
    return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


class Auth:
    """Lets requests in: with a key that has the scope, or all of them on loopback before there is any key.

    `token`: what a browser sends in place of a key as long as there is none; without one, no browser is let in.
    """

    def __init__(
        self, keys: Callable[[], Sequence[Key]], token: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._token, self._clock = keys, token, clock

    def check(self, headers: Mapping[str, str], scope: str, board: str | None, some: bool = False) -> str:
        """Refuse a request without the right to do this; 401 without a key, 403 with one that is not enough.

        `some`: a key for any one board will do. Who it is that asks: the id of the key.
        """
        keys = self._keys()
        if not keys:
            self._local(headers)
            return HERE
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

    def opens(self, headers: Mapping[str, str], scope: str, board: str | None, some: bool = False) -> bool:
        """Whether a request may do this."""
        try:
            self.check(headers, scope, board, some)
        except Refused:
            return False
        return True

    def known(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has a key, whatever for."""
        return any(self.opens(headers, scope, None, some=True) for scope in ("rank", "feedback"))

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

    def _local(self, headers: Mapping[str, str]) -> None:
        """Open on loopback, but not to what comes from elsewhere by way of this machine: a proxy, or a web page.

        Another site's script may reach loopback, under any name, and so may a page of another program here; so a
        browser also has to know the token that was printed when the server was started.
        """
        if not _at_home(headers.get("host", "")) or _forwarded(headers) or not _own_page(headers):
            raise Refused(
                403, "without API keys only this machine is served: create one with `steadyrank keys create`"
            )
        if _from_page(headers):
            _, _, given = headers.get("authorization", "").partition(" ")
            if not self._token or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
                raise Refused(401, "open the address with the token that `steadyrank serve` printed at its start")
