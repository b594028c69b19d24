"""The pictures of the dashboard: python docs/make_screenshots.py. Takes two minutes and needs Chromium.

From a real server, `steadyrank serve --demo`, with one more board beside those of the demo.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from steadyrank.client import Client

FOLDER = pathlib.Path(__file__).parent / "images"
HONEST = 45  # seconds before the attack
MOST = 200_000  # bytes of a picture


@contextlib.contextmanager
def demo() -> Iterator[tuple[str, str]]:
    """The address of a demo server, and the query that opens its pages."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "steadyrank.cli", "serve", "--demo", "--demo-attack-after", str(HONEST)]
    quiet = {"env": os.environ, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([*command, "--port", str(port)], **quiet) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(address)
            lines = iter(server.stdout.readline, "")
            yield address, next(filter(None, (re.search(r"\?token=[\w-]+", line) for line in lines))).group()
        finally:
            server.send_signal(signal.SIGINT)


def wait_for(address: str) -> None:
    """Until the server is ready; the demo's board is made a moment later, and pages wait for it by themselves."""
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/readyz", timeout=1) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the demo did not start")


def visit(client: Client, board: str, items: int, visits: int, **settings: object) -> None:
    """A board with honest users of its own."""
    names = [f"offer {k + 1}" for k in range(items)]
    client.put_board(board, items=names, length=5, settle=0, **settings)
    rng = np.random.default_rng(items)
    for _ in range(visits):
        shown = client.rank(board)
        chances = [0.4 / (1 + names.index(item)) for item in shown.items]
        clicked = next(
            (item for item, chance in zip(shown.items, chances, strict=True) if rng.random() < chance), None
        )
        client.feedback(board, shown.impression, clicked=clicked)


def open_page(browser: Browser, address: str, width: int, height: int, *, dark: bool = False) -> Page:
    """A window on a page."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    return page


def keep(page: Page, name: str) -> None:
    """Write what the window shows, in its 256 most common colours: the file is less than half as large."""
    path = FOLDER / f"dashboard-{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    common = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)[:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in common for part in colour])
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {MOST}")


def label(page: Page) -> None:
    """Label the latest regime's rounds as fraud, as an admin would."""
    page.locator("#band-rows button").first.click()
    page.locator("#as-fraud").click()
    page.locator("#ask-yes").click()
    expect(page.locator(".timeline .strip.fraud")).to_have_count(1)
    expect(page.locator("#stale")).to_be_hidden(timeout=20_000)


def main() -> None:
    """Watch a demo until its attack is seen, and take the pictures."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with demo() as (address, token), sync_playwright() as play:
        client = Client(address, timeout=60.0)
        visit(client, "front-page", 12, 500)
        client.close()
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        board = f"{address}/boards/demo{token}"
        pages = {
            "board": open_page(browser, board, 1280, 1320),
            "board-dark": open_page(browser, board, 1280, 1000, dark=True),
            "phone": open_page(browser, board, 400, 900),
            "overview": open_page(browser, f"{address}/{token}", 1280, 440),
        }
        first = pages["board"]
        expect(first.locator(".timeline .strip.doubted")).to_have_count(1, timeout=90_000)
        expect(first.locator("#facts dd").first).to_have_text(re.compile(r"[23]\d\.\d %"), timeout=60_000)
        for name, page in pages.items():
            keep(page, name)
        label(first)
        keep(first, "label")
        browser.close()


if __name__ == "__main__":
    main()
