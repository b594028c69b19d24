"""Which worker owns which board, as answers say, for clients that may go straight there."""

import re

from .wire import Address, Request, ResponseReader

_MOST = 10_000  # boards kept in mind
_PLACE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


class Owners:
    """Where to send requests: to the server that the user named, or to who owns the board of a request.

    `straight`: whether requests, and with them the key, may go to addresses that the server names.
    """

    def __init__(self, server: Address, key: str | None, straight: bool) -> None:
        if straight and server.secure:
            raise ValueError("straight goes to workers over http: it cannot be used with an address of https")
        self._server, self._key, self._straight = server, key, straight
        self._places: dict[str, Address] = {}  # by board

    def address(self, request: Request) -> Address:
        """Where to send a request."""
        return self._places.get(request.board, self._server)

    def note(self, request: Request, asked: Address, response: ResponseReader) -> None:
        """Learn from the answer of who was asked: it names the owner if it passed the request on."""
        place = response.headers.get("steadyrank-owner", "")
        if not self._straight or not request.board:
            return
        if _PLACE.fullmatch(place):
            if len(self._places) >= _MOST:
                self._places.clear()
            self._places[request.board] = Address(f"http://{place}", self._key)
        elif response.status == 503:
            self.forget(asked)

    def forget(self, asked: Address) -> bool:
        """Somebody did not answer; whether the server that the user named is to be asked instead."""
        self._places = {board: place for board, place in self._places.items() if place.name != asked.name}
        return asked is not self._server
