"""A real headless Chromium, where the machine has one."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needed = pytest.mark.skipif(
    PROGRAM is None,
    reason="no Chromium on this machine; on Debian: apt-get install chromium (make test tries to)",
)

expect.set_options(timeout=90_000)  # what a page shows is tested, not how fast a busy machine shows it


@contextlib.contextmanager
def opened(
    address: str, width: int, *, dark: bool = False, offline: bool = True, returning: bool = False
) -> Iterator[tuple[Page, list[str]]]:
    """The page in a window of that width, and the errors that its console saw.

    `returning`: pages that were left come back as they were, as they do for users.
    """
    left_out = ["--disable-back-forward-cache"] if returning else None
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"], ignore_default_args=left_out)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=offline
        )
        page = context.new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        yield page, errors
        browser.close()
