"""Who may do what: API keys with scopes, and what is open without one."""

import functools
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from ...refusals import Refused
from ..storage import Key

SCOPES = ("rank", "feedback", "admin")  # admin may do everything
_PREFIX = "sr"


def make_key(scopes: Sequence[str], board: str | None, now: float) -> tuple[str, Key]:
    """A new key as its owner keeps it, and as it is stored: 256 random bits need no slow hash."""
    for scope in scopes:
        if scope not in SCOPES:
            raise ValueError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
    if not scopes:
        raise ValueError(f"a key needs at least one scope: {', '.join(SCOPES)}")
    name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    stored = Key(name, _hash(secret), " ".join(sorted(set(scopes))), board, now, None)
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
def _at_home(host: str, origin: str | None) -> bool:
    """Whether a request was sent to this machine by its name or address, and by no page from elsewhere."""
    try:
        named = urlsplit(f"//{host}").hostname or ""
        page = None if origin is None else urlsplit(origin).hostname or ""
    except ValueError:
        return False
    return loopback(named) and (page is None or loopback(page))


class Auth:
    """Lets requests in: with a key that has the scope, or all of them on loopback before there is any key."""

    def __init__(self, keys: Callable[[], Sequence[Key]]) -> None:
        self._keys = keys

    def check(self, headers: Mapping[str, str], scope: str, board: str | None, some: bool = False) -> None:
        """Refuse a request without the right to do this; 401 without a key, 403 with one that is not enough.

        `some`: a key for any one board will do.
        """
        keys = self._keys()
        if not keys:
            self._local(headers)
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not given:
            raise Refused(401, "an API key is needed: Authorization: Bearer KEY")
        key = self._find(keys, given.strip())
        if key.board is not None and key.board != board and not some:
            raise Refused(403, "this API key is for another board")
        scopes = key.scopes.split()
        if scope not in scopes and "admin" not in scopes:
            raise Refused(403, f"this API key lacks the scope {scope!r}")

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
        hashed, found = _hash(secret), None
        for key in keys:
            if key.id == name and key.revoked is None and hmac.compare_digest(key.hash, hashed) and prefix == _PREFIX:
                found = key
        if found is None:
            raise Refused(401, "this API key is unknown or was revoked")
        return found

    def _local(self, headers: Mapping[str, str]) -> None:
        """Open on loopback, but not to web pages: another site's script may reach loopback, under any name."""
        if not _at_home(headers.get("host", ""), headers.get("origin")):
            raise Refused(
                403, "without API keys only this machine is served: create one with `steadyrank keys create`"
            )
