"""A headless Chromium, and pages made once for all tests; skipped where no browser is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.reports.write import write_report
from tests._bandwidth import sweep
from tests._rows import write_run
from tests.browser._runs import HOSTILE, shown_run

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Opened:
    """A page in the browser, and all it complained of or asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser: the system's, else playwright's own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
        if not Path(found).exists():
            pytest.skip("no Chromium here: install the system's package, or `playwright install chromium`")
        # its sandbox does not work for root
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by name: "shown" has prompts, "hostile" the same with hostile text, "two" several runs."""
    folder = tmp_path_factory.mktemp("pages")
    quiet = Console(file=StringIO(), width=100)
    shown = shown_run(folder / "run")
    hostile = shown_run(folder / "hostile", HOSTILE)
    speeds = write_run(sweep([1, 5, None], n=3), folder / "speeds", {"experiment": "fig13"})
    return {
        "shown": write_report([shown], folder / "out" / "shown", quiet),
        "hostile": write_report([hostile], folder / "out" / "hostile", quiet),
        "two": write_report([shown, speeds], folder / "out" / "two", quiet),
    }


@pytest.fixture
def opened(chromium: Any, pages: dict[str, Path]) -> Iterator[Callable[..., Opened]]:
    """opened(name, width, scheme): the page, loaded from disk."""
    contexts = []

    def of(name: str = "shown", width: int = 1280, scheme: str = "light") -> Opened:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(5000)
        one = Opened(context.new_page())
        one.page.on("console", lambda message: one.complaints.append(message.text))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("dialog", lambda dialog: one.complaints.append(dialog.message))
        one.page.on("request", lambda request: one.asked.append(request.url))
        one.page.goto(pages[name].as_uri())
        one.page.wait_for_selector("#pareto .dot")
        return one

    yield of
    for context in contexts:
        context.close()
