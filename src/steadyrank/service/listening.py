"""The sockets that a server listens on, taken before any other work is done."""

import contextlib
import socket


def bind(address: str, port: int) -> list[socket.socket]:
    """Sockets bound to each address that a name has, with one port; port 0 takes a free one. None listens yet."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValueError(f"--host {address} is no address of this machine: {error.strerror}") from None
    with contextlib.ExitStack() as undo:
        bound: list[socket.socket] = []
        for family, kind, protocol, _, place in dict.fromkeys(found):
            one = undo.enter_context(socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                one.bind((place[0], port_of(bound) if bound else port, *place[2:]))
            except OSError as error:
                raise ValueError(f"cannot listen on {address}, port {port}: {error.strerror}; see --port") from None
            bound.append(one)
        undo.pop_all()
        return bound


def port_of(bound: list[socket.socket]) -> int:
    """The port, once it is known."""
    port: int = bound[0].getsockname()[1]
    return port


def url_of(address: str, bound: list[socket.socket]) -> str:
    """Where a browser finds it."""
    return f"http://{f'[{address}]' if ':' in address else address}:{port_of(bound)}"
