"""The moving picture of the README: python docs/make_animation.py. Takes two minutes and needs Chromium.

From the shop of `make shop` with the port 8080 free: its page, reloaded every two seconds, before bots come, while
they click, and after. Products that they push are marked here; the shop itself marks nothing.
"""

import contextlib
import io
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from PIL import Image
from playwright.sync_api import Page, sync_playwright

FOLDER, NAME = pathlib.Path(__file__).parent, "shop"
PICTURE = FOLDER / "images" / f"{NAME}.gif"
SIZE = {"width": 900, "height": 690}
BEFORE, DURING, AFTER, EVERY = 4, 20, 8, 2.0  # pictures, and seconds between two
MOST = 1_000_000  # bytes
MARK = """async (told) => {
  const seen = await (await fetch("/stage.json")).json();
  for (const item of document.querySelectorAll("li")) {
    const paid = seen.paid.includes(item.textContent.trim());
    for (const node of [item, ...item.children]) node.style.cssText = paid ? "color: #b00020; font-weight: bold" : "";
  }
  document.querySelector("h1").textContent = told;
  document.querySelector("form").hidden = true;
}"""


@contextlib.contextmanager
def shop() -> Iterator[str]:
    """The address of a shop that was just started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(FOLDER.parent / "examples" / "shop" / "run.py"), "--port", str(port)]
    quiet = {"env": os.environ, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **quiet) as process:
        try:
            for line in process.stdout or ():
                if line.startswith("Open "):
                    yield f"http://127.0.0.1:{port}"
                    return
            raise SystemExit("the shop did not start")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def frame(page: Page, told: str) -> Image.Image:
    """What the page shows now, with a line that says when it is."""
    page.reload()
    page.wait_for_function("document.querySelector('#ours-worth').textContent !== '…'")
    page.evaluate(MARK, told)
    with Image.open(io.BytesIO(page.screenshot())) as opened:
        return opened.convert("RGB")


def frames(page: Page) -> list[Image.Image]:
    """Pictures in order."""
    found = []
    for words, count in (("Before the bots", BEFORE), ("Bots click", DURING), ("The bots have left", AFTER)):
        if words == "Bots click":
            page.click("#bots")
        for k in range(count):
            start = time.monotonic()
            told = f"{words}: second {EVERY * k:.0f}" if words == "Bots click" else words
            found.append(frame(page, told))
            time.sleep(max(0.0, EVERY - (time.monotonic() - start)))
    return found


def main() -> None:
    """Watch the shop, and write the picture."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with shop() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(address)
        time.sleep(10.0)  # so that people have come
        found = frames(page)
        sys.stdout.write(page.inner_text("table") + "\n")  # what README says of the lists of the end
        browser.close()
    palette = found[len(found) // 2].quantize(64)
    small = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in found]
    times = [500] * (len(small) - 1) + [3_000]
    small[0].save(PICTURE, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)
    if PICTURE.stat().st_size > MOST:
        raise SystemExit(f"{PICTURE} has {PICTURE.stat().st_size} bytes, more than {MOST}")


if __name__ == "__main__":
    main()
