"""A browser for the tests that look at the page as people do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Debian's chromium, headless, with a fresh profile; skipped where it is absent unless BPUC_REQUIRE_BROWSER=1."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        why = "chromium or chromedriver is not installed (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("BPUC_REQUIRE_BROWSER") == "1":
            pytest.fail(why)
        pytest.skip(why)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *(
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
        ),
        *("--disable-component-update", "--disable-sync", "--no-first-run", "--lang=en"),
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()


@pytest.fixture
def open_page(browser, tmp_path):
    """Write a page to disk, open it at a width, and hand the browser back."""

    def go(text: str, width: int = 1440, scheme: str = "light"):
        path = Path(tmp_path) / "page.html"
        path.write_text(text, encoding="utf-8")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get_log("browser")  # what an earlier page said is not this page's
        browser.get(path.as_uri())
        return browser

    return go
