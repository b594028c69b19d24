"""A real headless Chromium, where the machine has one."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from typing import ClassVar

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

# a full browser takes five times as long for a page; only it restores pages on going back
_WHOLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROGRAM = shutil.which("chromium-headless-shell") or _WHOLE
needed = pytest.mark.skipif(
    PROGRAM is None,
    reason="no Chromium on this machine; on Debian: apt-get install chromium (make test tries to)",
)
needed_whole = pytest.mark.skipif(
    _WHOLE is None, reason="no Chromium with windows on this machine; on Debian: apt-get install chromium"
)

expect.set_options(timeout=90_000)  # what a page shows is tested, not how fast a busy machine shows it


class _Running:
    """Browsers of this process, each started once: starting one takes four times as long as opening a window."""

    play: Playwright | None = None
    found: ClassVar[dict[bool, Browser]] = {}
    loop: asyncio.AbstractEventLoop | None = None


@contextlib.contextmanager
def _in_its_loop() -> Iterator[None]:
    """Playwright leaves an event loop running in this thread: it is hidden where no page is open, since there may be
    one loop only that runs."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(before or _Running.loop)
    try:
        yield
    finally:
        _Running.loop = asyncio._get_running_loop()
        asyncio._set_running_loop(before)


def _browser(returning: bool) -> Browser:
    if _Running.play is None:
        _Running.play = sync_playwright().start()
    if returning not in _Running.found:
        left_out = ["--disable-back-forward-cache"] if returning else None
        _Running.found[returning] = _Running.play.chromium.launch(
            executable_path=_WHOLE if returning else PROGRAM, args=["--no-sandbox"], ignore_default_args=left_out
        )
    return _Running.found[returning]


def close() -> None:
    """Close the browsers of this process."""
    if _Running.play is not None:
        with _in_its_loop():
            for browser in _Running.found.values():
                browser.close()
            _Running.play.stop()


@contextlib.contextmanager
def opened(
    address: str, width: int, *, dark: bool = False, offline: bool = True, returning: bool = False
) -> Iterator[tuple[Page, list[str]]]:
    """The page in a window of that width, and the errors on its console. It shares nothing with other pages.

    `returning`: restore pages on going back, as users' browsers do.
    """
    with _in_its_loop():
        context = _browser(returning).new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",  # animations are redrawn all the time
            offline=offline,
        )
        try:
            page = context.new_page()
            errors: list[str] = []
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(address)
            yield page, errors
        finally:
            context.close()
