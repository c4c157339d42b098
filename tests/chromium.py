"""Finds a Chromium for the tests in a browser; run as a script, it provides one: `make test`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WHAT_TO_INSTALL = (
    "No Chromium was found. Install one (Debian, Ubuntu: sudo apt-get install chromium), "
    f"or let Playwright fetch its own: {sys.executable} -m playwright install chromium"
)


def find() -> str | None:
    """The installed Chromium's path, else that of Playwright's own download; None if there is neither."""
    from playwright.sync_api import sync_playwright

    for name in NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def provide() -> None:
    """Install one if there is none: the system's package where that is allowed, else Playwright's download."""
    if find():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "--quiet"])
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"])
    if not find():
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"])
    if not find():
        print(WHAT_TO_INSTALL, file=sys.stderr)


if __name__ == "__main__":
    provide()
