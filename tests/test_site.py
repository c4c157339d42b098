"""The book as pages: built from the committed notebooks, opened from a disk and over a server, without a network."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import watch
from playwright.sync_api import Browser, Page, expect
from test_explorer_page import settle

from toy_transformer.explorer import explore
from toy_transformer.explorer.widget import STATE
from toy_transformer.model import Transformer
from toy_transformer.proofs.horizon import shortest_wrong_string
from toy_transformer.weights import build, numbers_of

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "src" / "site" / "build.py"
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
QUICK = ["02-self-attention-block", "index", "glossary"]
OTHERS = ["index", "playground", "glossary", "run", "api"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([sys.executable, BUILD, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@contextmanager
def opened(browser: Browser, address: str, **context) -> Iterator[Page]:
    """A page that must be without an error, and without a request to elsewhere."""
    context = browser.new_context(**dict(viewport=dict(width=1300, height=900)) | context)
    page, requests = context.new_page(), []
    errors = watch(page)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "http://127.0.0.1:"))] == []


def wake_all(page: Page) -> None:
    for place in page.locator(".live").all():
        place.scroll_into_view_if_needed()
        expect(place.locator(".toy-explorer .cards").first).to_be_attached()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.weekly] * (name not in QUICK)) for name in (*NOTEBOOKS, *OTHERS)]
)
def test_a_page_is_alive_accessible_and_fits(site, browser, name):
    """Light and dark, wide and narrow. Axe would load the style sheets once more, which a page from a disk may not."""
    with opened(browser, f"file://{site}/{name}.html", offline=True) as page:
        wake_all(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settle(page)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            found = Axe().run(page, options={"preload": False}).response["violations"]
            assert [(v["id"], [node["html"][:200] for node in v["nodes"]]) for v in found] == []
        for width in (1600, 390, 320):
            page.set_viewport_size(dict(width=width, height=800))
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_explorer_of_a_notebook_is_there(site, name):
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    page = (site / f"{name}.html").read_text()
    assert page.count('<div class="live">') == sum(STATE in output.get("data", {}) for output in outputs) > 0
    pictures = re.findall(r"<img [^>]*_static/[^>]*>", page)
    assert len(pictures) == sum("image/png" in output.get("data", {}) for output in outputs)
    assert all(re.search(r'alt="[^"]{20,}" width="\d+" height="\d+" loading="lazy"', picture) for picture in pictures)


def test_links_lead_to_pages(site):
    for page in site.glob("*.html"):
        for link in re.findall(r'href="([^":#?]+)(?:[#?][^"]*)?"', page.read_text()):
            assert (site / link).exists(), f"{page.name}: {link}"


def test_without_javascript_a_page_reads_completely(site, browser):
    with opened(browser, f"file://{site}/{NOTEBOOKS[3]}.html", java_script_enabled=False) as page:
        expect(page.locator(".live img")).to_be_visible()
        assert "The length up to which a model is right about" in page.inner_text("main")


def test_a_drag_changes_the_verdict_as_python_says(site, browser):
    with opened(browser, f"file://{site}/index.html") as page:
        wake_all(page)
        page.locator('.handle[data-vector="a"]').first.focus()
        for _ in range(4):
            page.keyboard.press("Shift+ArrowDown")
        settle(page)
        read = "nodes => nodes.map(({ dataset }) => [dataset.address, dataset.value])"
        numbers, verdict = page.locator("input.number").evaluate_all(read), page.locator(".horizon").inner_text()
    weights = numbers_of(Transformer())
    for address, value in numbers:
        name, row, column = address.split(".")
        (weights[name][int(row)] if row else weights[name])[int(column)] = float(value)
    assert shortest_wrong_string(build(weights)).string in verdict


@pytest.fixture(scope="module")
def served(site) -> Iterator[str]:
    """The address of the site on a server."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_link_brings_its_state_and_a_wrong_one_says_so(served, browser, walkthrough):
    explorer = explore(walkthrough)
    explorer.weights = explorer.weights | {"a": [0.5, 0.25]}
    link = f"{served}/playground.html#{explorer.code}"
    with opened(browser, link) as page:
        wake_all(page)
        expect(page.get_by_label("embeddings, a, dim 0")).to_have_value("0.5000")
        page.locator("details.code summary").click()
        expect(page.locator("details.code a")).to_have_attribute("href", link)
    with opened(browser, link[:-3]) as page:
        wake_all(page)
        expect(page.locator(".problem").filter(has_text="Not taken")).to_be_visible()
        expect(page.get_by_label("embeddings, a, dim 0")).not_to_have_value("0.5000")


def test_search_finds_the_horizon(served, browser):
    with opened(browser, f"{served}/search.html?q=horizon") as page:
        expect(page.locator("#search-results li").first).to_be_visible()


def test_the_first_page_is_light(site, browser):
    """At most 300 kB, but for pictures."""
    with opened(browser, f"file://{site}/index.html") as page:
        page.locator(".toy-explorer .cards").first.wait_for()
        names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    files = {site / "index.html"} | {Path(name.removeprefix("file://").split("?")[0]) for name in names}
    sizes = {file.name: file.stat().st_size for file in files if file.suffix != ".png"}
    assert sum(sizes.values()) <= 300_000, sizes
