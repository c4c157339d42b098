"""The book as pages: built from the committed notebooks, opened from a disk and over a server, without a network."""

import json
import re
import shutil
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
from browser import violations, watch
from playwright.sync_api import Browser, Page, expect
from test_explorer_page import settle

from toy_transformer.explorer import explore
from toy_transformer.explorer.verdict import sentence_on_horizon
from toy_transformer.explorer.widget import STATE
from toy_transformer.model import ModelConfig, Transformer

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "src" / "site" / "build.py"
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
QUICK = ["05-right-at-every-length", "index", "glossary"]
PLACES = re.compile(r'<div class="live"><script type="application/json">(.*?)</script>', re.DOTALL)
OTHERS = ["index", "playground", "glossary", "run", "api"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([sys.executable, BUILD, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in folder.parent.iterdir()] == ["site"]
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


def moves_as_python_says(page: Page, file: Path) -> None:
    """Nudge a vector of every explorer that has one, and ask Python what the page's numbers come to."""
    states = [state for places in PLACES.findall(file.read_text()) for state in json.loads(places).values()]
    for state, shown in zip(states, page.locator(".toy-explorer").all(), strict=True):
        if not state["editable"] or not {"embeddings", "path"} & set(state["views"]):
            continue
        shown.locator("details.code summary").click()
        code = shown.locator("details.code input")
        before = code.input_value()
        shown.locator(".handle").first.focus()
        for _ in range(3):
            page.keyboard.press("Shift+ArrowDown")
        settle(page)
        assert code.input_value() != before
        explorer = explore(Transformer(ModelConfig(attend_cls=state["attend_cls"])), state["strings"])
        explorer.from_code(code.input_value())
        logits = [float(node.get_attribute("data-value")) for node in shown.locator(".sentences li").all()]
        python = explorer.model.trace(explorer.strings).output_logits.tolist()
        assert logits == (pytest.approx(python, abs=1e-4) if "verdict" in state["views"] else [])
        if "horizon" in state["views"]:
            expect(shown.locator(".horizon")).to_have_text(sentence_on_horizon(explorer.model))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.weekly] * (name not in QUICK)) for name in (*NOTEBOOKS, *OTHERS)]
)
def test_a_page_is_alive_accessible_and_fits(site, browser, name):
    """Light and dark, wide and narrow."""
    with opened(browser, f"file://{site}/{name}.html", offline=True) as page:
        wake_all(page)
        moves_as_python_says(page, site / f"{name}.html")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            settle(page)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            assert violations(page) == []
        for width in (1600, 390, 320):
            page.set_viewport_size(dict(width=width, height=800))
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.weekly
def test_an_output_that_no_renderer_shows_ends_the_build(tmp_path):
    (sources := tmp_path / "sources").mkdir()
    shutil.copy(BUILD.with_name("conf.py"), sources)
    cell = nbformat.v4.new_code_cell("show()", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", {"application/x-unknown": "lost"})]
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A page"), cell]), sources / "index.ipynb"
    )
    call = "import build, pathlib, sys; sys.exit(build.write_pages(*map(pathlib.Path, sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", call, sources, tmp_path / "site"], cwd=BUILD.parent, capture_output=True, text=True
    )
    assert done.returncode == 1 and "application/x-unknown" in done.stderr, done.stdout + done.stderr


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


def test_paper_is_light_and_shows_what_is_folded(site, browser):
    with opened(browser, f"file://{site}/{NOTEBOOKS[1]}.html", color_scheme="dark") as page:
        wake_all(page)
        folded = page.locator("details.hide .output").first
        expect(folded).to_be_hidden()
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(folded).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_from_the_address_bar_to_a_moved_vector_by_keyboard(site, browser):
    with opened(browser, f"file://{site}/index.html") as page:
        page.locator(".toy-explorer .cards").wait_for()
        verdict = page.locator(".verdict").inner_text()
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to main content")
        page.keyboard.press("Enter")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.handle')"):
                break
        settle(page)
        assert page.locator(".verdict").inner_text() == verdict
        page.keyboard.press("Shift+ArrowDown")
        settle(page)
        assert page.locator(".verdict").inner_text() != verdict


@pytest.mark.parametrize("width", [1300, 390])
def test_nothing_lies_over_the_verdict(site, browser, width):
    with opened(browser, f"file://{site}/index.html", viewport=dict(width=width, height=844)) as page:
        wake_all(page)
        page.locator(".training .chart").scroll_into_view_if_needed()
        for words in page.locator(".verdict :is(li, .horizon)").all():
            assert words.evaluate(
                """node => {
                    const { x, y, width, height } = node.getBoundingClientRect();
                    return document.elementFromPoint(x + width / 2, y + height / 2).closest(".verdict") !== null;
                }"""
            )


SHIFTS = """() => new Promise((done) => {
    new PerformanceObserver((list) => done(list.getEntries().reduce((sum, { value }) => sum + value, 0)))
        .observe({ type: "layout-shift", buffered: true });
    setTimeout(done, 200, 0);
})"""


@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("name", ["index", NOTEBOOKS[1]])
def test_nothing_shifts_as_a_page_loads(site, browser, name, width):
    """A share of the screen that moves under the eyes, as Layout Instability (W3C) counts it; good is below 0.1."""
    with opened(browser, f"file://{site}/{name}.html", viewport=dict(width=width, height=844)) as page:
        wake_all(page)
        assert page.evaluate(SHIFTS) < 0.02


def test_twenty_explorers_do_not_slow_each_other(site, browser, tmp_path):
    """One trains; the others change nothing of their part of the page, and nor does it once it is out of sight."""
    shutil.copytree(site, copy := tmp_path / "site")
    text = (copy / "playground.html").read_text()
    place = re.search(r'<div class="live">.*?</div>', text, re.DOTALL)[0]
    (copy / "playground.html").write_text(text.replace(place, 20 * f'<div style="height: 3000px">{place}</div>'))
    with opened(browser, f"file://{copy}/playground.html") as page:
        expect(page.locator(".toy-explorer .cards")).to_have_count(20)
        page.get_by_role("button", name="train", exact=True).first.click()
        changes = """() => new Promise((done) => {
            const of = [...document.querySelectorAll(".toy-explorer")], counts = of.map(() => 0);
            of.forEach((node, i) => new MutationObserver((changes) => { counts[i] += changes.length; })
                .observe(node, { subtree: true, childList: true, attributes: true, characterData: true }));
            setTimeout(done, 500, counts);
        })"""
        first, *others = page.evaluate(changes)
        assert first > 0 and others == [0] * 19
        page.evaluate("scrollTo(0, 9000)")
        settle(page)
        assert page.evaluate(changes) == [0] * 20
        page.evaluate("scrollTo(0, 0)")
        settle(page)
        assert page.evaluate(changes)[0] > 0


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


def test_search_finds_the_horizon(site, served, browser):
    for base in (f"file://{site}", served):
        with opened(browser, f"{base}/search.html?q=horizon") as page:
            expect(page.locator("#search-results li").first).to_be_visible()


def test_the_first_page_is_light(site, browser):
    """At most 300 kB, but for pictures, and alive at once."""
    with opened(browser, f"file://{site}/index.html") as page:
        assert page.locator(".toy-explorer .cards").count() == 1  # as soon as it has loaded
        names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    files = {site / "index.html"} | {Path(name.removeprefix("file://").split("?")[0]) for name in names}
    sizes = {file.name: file.stat().st_size for file in files if file.suffix != ".png"}
    assert sum(sizes.values()) <= 300_000, sizes
