"""Each notebook, opened and run to its end in a real JupyterLab: two of them, and weekly all."""

import re
import shutil
from pathlib import Path

import pytest
from browser import Lab, jupyterlab, run_all
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
QUICK = ("02", "03")


@pytest.fixture(scope="module")
def lab(browser, package, tmp_path_factory) -> Lab:
    folder = tmp_path_factory.mktemp("copies")
    for name in NOTEBOOKS:
        shutil.copy(ROOT / "notebooks" / name, folder)
    with jupyterlab(browser, folder, tmp_path_factory.mktemp("lab"), PYTHONPATH=str(package)) as lab:
        yield lab


@pytest.fixture(scope="module")
def page(lab) -> Page:
    """One for all, for to load JupyterLab takes longer than to run most notebooks."""
    page = lab.open(NOTEBOOKS[0])
    yield page
    lab.close(page)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.weekly] * (not name.startswith(QUICK))) for name in NOTEBOOKS],
)
def test_runs_to_its_end_without_an_error(lab, page, name):
    lab.open(name, page)
    page.errors.clear()  # of the notebook before: what its kernel was asked when it was shut down
    run_all(page)
    cells = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")
    numbers = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell .jp-InputPrompt").all_inner_texts()
    assert [int(re.search(r"\d+", number)[0]) for number in numbers] == list(range(1, cells.count() + 1))
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    explorers = page.locator(".toy-explorer")
    asked_for = sum(source.count("explore(") for source in cells.locator(".jp-InputArea-editor").all_inner_texts())
    assert explorers.count() == asked_for > 0
    for explorer in explorers.all():
        expect(explorer.locator(".card").first).to_be_visible()
    assert page.errors == []
