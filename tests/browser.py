"""A real browser for tests, and a real JupyterLab for it: fixtures."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chromium
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright
from servers import wait_for_server

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FOLDERS = (
    "HOME",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
    "MPLCONFIGDIR",
)

# Two cores may be busy with other tests.
expect.set_options(timeout=10_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one file of tests: Playwright's event loop would be in the way of others in the same process."""
    with launch() as browser:
        yield browser


@contextmanager
def launch() -> Iterator[Browser]:
    path = chromium.find()
    if path is None:
        pytest.fail(chromium.WHAT_TO_INSTALL)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """Give a list that fills with the page's errors: what it throws, and what it writes to the console as an error."""
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    return errors


def violations(page: Page, context: str | None = None) -> list[tuple[str, list[str]]]:
    """What axe finds, and where. It would load the style sheets once more, which a page from a disk may not."""
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, context, options).response["violations"]
    return [(violation["id"], [node["html"][:200] for node in violation["nodes"]]) for violation in found]


IS_READY = """name => {
    const context = window.jupyterapp?.shell?.currentWidget?.context;
    const hasCommand = context?.path === name && jupyterapp.commands.hasCommand("notebook:run-all-cells");
    const { isReady, session } = context?.sessionContext ?? {};
    return hasCommand && isReady && session?.kernel?.status === "idle";
}"""
REPLACE = """async path => {
    const notebook = jupyterapp.shell.currentWidget;
    await notebook.context.sessionContext.shutdown();
    notebook.dispose();
    await jupyterapp.commands.execute("docmanager:open", { path });
}"""


class Lab:
    """A JupyterLab over a folder; `open` gives a page with one of its notebooks, its kernel ready."""

    def __init__(self, browser: Browser, folder: Path, server: dict):
        self.browser, self.folder, self.server = browser, folder, server

    def open(self, name: str, page: Page | None = None) -> Page:
        """With a page, the notebook takes the place of the one that is open there."""
        if page is None:
            page = self.browser.new_context(viewport=dict(width=1300, height=1000)).new_page()
            page.errors = watch(page)
            page.goto(f"{self.server['url']}lab/tree/{name}?reset&token={self.server['token']}")
        else:
            page.evaluate(REPLACE, name)
        page.wait_for_function(IS_READY, arg=name, timeout=60_000)
        return page

    def close(self, page: Page) -> None:
        """Close a page and shut its kernel down."""
        page.evaluate("() => jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
        page.context.close()


def run_all(page: Page) -> None:
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")


@contextmanager
def jupyterlab(browser: Browser, folder: Path, elsewhere: Path, **env: str) -> Iterator[Lab]:
    """Start JupyterLab over a folder, with further variables in its environment; all its own files lie elsewhere."""
    env = os.environ | {name: str(elsewhere / name) for name in FOLDERS} | env
    settings = elsewhere / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab"
    for path, values in {
        "apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
        "docmanager-extension/plugin.jupyterlab-settings": {"autosave": False},
        # Cells out of sight are in the page as well.
        "notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    }.items():
        (settings / path).parent.mkdir(parents=True)
        (settings / path).write_text(json.dumps(values))
    flags = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    flags += ["--expose-app-in-browser", f"--ServerApp.root_dir={folder}"]
    log = elsewhere / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *flags],
            env=env,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            yield Lab(browser, folder, wait_for_server(process, elsewhere / "JUPYTER_RUNTIME_DIR", log))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:  # with many kernels and two busy cores
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
