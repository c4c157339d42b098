"""A real JupyterLab: the explorer with its kernel, and notebooks run to their ends."""

import json
import random
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from browser import Lab, jupyterlab, run_all, violations
from playwright.sync_api import Locator, Page, expect
from test_explorer_page import middle, overlapping_labels, settle

from toy_transformer.explorer.widget import VIEWS
from toy_transformer.model import ModelConfig
from toy_transformer.proofs.horizon import shortest_wrong_string
from toy_transformer.weights import build, numbers_of

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
SESSION = "jupyterapp.shell.currentWidget.context.sessionContext.session"
IMPORTS = """\
from toy_transformer import experiments
from toy_transformer.explorer import explore
from toy_transformer.weights import build"""
SHOW = ["explorer = explore(run, ['aac', 'baac', 'ab{100}'])\nexplorer", "other = explore(run)\nother"]


@pytest.fixture(scope="module")
def lab(browser, walkthrough, package, tmp_path_factory) -> Lab:
    folder = tmp_path_factory.mktemp("notebooks")
    # Each has a kernel of its own.
    for name, run in {
        "explorer": "experiments.run('walkthrough')[0]",
        "restarted": f"build({numbers_of(walkthrough.model)})",
    }.items():
        nbformat.write(_notebook([f"{IMPORTS}\nrun = {run}", *SHOW]), folder / f"{name}.ipynb")
    for name in NOTEBOOKS:
        shutil.copy(ROOT / "notebooks" / name, folder)
    with jupyterlab(browser, folder, tmp_path_factory.mktemp("lab"), PYTHONPATH=str(package)) as lab:
        yield lab


def _notebook(sources: list[str]) -> nbformat.NotebookNode:
    metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    heading = nbformat.v4.new_markdown_cell("# A heading")
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=[heading, *cells], metadata=metadata)


def open_explorers(lab: Lab, name: str, page: Page | None = None) -> Page:
    page = lab.open(name, page)
    page.set_default_timeout(10_000)
    run_all(page)
    expect(page.locator(".toy-explorer .cards")).to_have_count(2, timeout=30_000)
    return page


@pytest.fixture(scope="module")
def opened(lab) -> Page:
    page = open_explorers(lab, "explorer.ipynb")
    yield page
    assert page.errors == []
    lab.close(page)


@pytest.fixture(scope="module")
def spare(lab) -> Page:
    """For other notebooks: to load JupyterLab takes longer than to run most of them."""
    page = lab.open(NOTEBOOKS[0])
    yield page
    page.context.close()


@pytest.fixture
def page(opened) -> Page:
    """The page with both explorers as they began."""
    execute(
        opened, "for each in (explorer, other): each.epoch = 0; each.epoch = run.best_epoch; each.length_scaling = 0.0"
    )
    execute(opened, "explorer.strings = ['aac', 'baac', 'ab{100}']; other.strings = ['aac', 'baac']")
    in_step(opened)
    return opened


@pytest.fixture
def explorer(page) -> Locator:
    return page.locator(".toy-explorer").first


def execute(page: Page, code: str) -> str:
    """Run code in the notebook's kernel; give what it prints."""
    return page.evaluate(
        """async (code) => {
            const kernel = jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
            const future = kernel.requestExecute({ code });
            let printed = "";
            future.onIOPub = ({ header, content }) => {
                if (header.msg_type === "stream") printed += content.text;
                if (header.msg_type === "error") printed += content.traceback.join("\\n");
            };
            await future.done;
            return printed;
        }""",
        code,
    )


def in_step(page: Page) -> None:
    """Wait until the kernel has what both explorers show: their numbers, epoch, if there are any, and κ."""
    sliders = "[x for x in (e.epoch, e.length_scaling) if x is not None]"
    fields = f"[float(x) for m in e.weights.values() for x in numpy.ravel(m)] + {sliders}"
    code = f"import json, numpy; print(json.dumps([{fields} for e in (explorer, other)]))"
    read = """roots => roots.map((root) => [
        ...[...root.querySelectorAll("input.number")].map((node) => Number(node.dataset.value)),
        ...[...root.querySelectorAll(":scope > .controls input[type=range]")].map((node) => Number(node.value)),
    ])"""
    for _ in range(100):
        settle(page)
        kernel, shown = json.loads(execute(page, code)), page.locator(".toy-explorer").evaluate_all(read)
        if kernel == shown:
            return
        page.wait_for_timeout(100)
    assert kernel == shown


def state(page: Page, name: str = "explorer") -> dict:
    fields = "dict(weights=e.weights, strings=e.strings, epoch=e.epoch, length_scaling=e.length_scaling)"
    return json.loads(execute(page, f"import json; e = {name}; print(json.dumps({fields}))"))


def quantities(explorer: Locator) -> dict[str, list[float]]:
    """What the views show, by name, with all digits."""
    pairs = explorer.locator("[data-name]").evaluate_all("nodes => nodes.map(n => [n.dataset.name, n.dataset.value])")
    return {name: [float(x) for x in value.split(",")] for name, value in pairs}


def expected_quantities(found: dict) -> dict[str, list[float]]:
    """The same from the model that the kernel has, in float64."""
    model = build(found["weights"], ModelConfig(length_scaling=found["length_scaling"])).double()
    trace, letters = model.trace(found["strings"]), model.trace(["abc"])
    # Equal letters of a string, such as the two a of "aac", are one row of the table of weights.
    string = found["strings"][0]
    occurring = [letter for letter in "abc" if letter in string]
    table = model.trace(["".join(f"{letter}{{{string.count(letter)}}}" for letter in occurring)])
    expected = {}
    for i, string in enumerate(found["strings"]):
        expected[f"logit {string}"] = [trace.output_logits[i]]
        expected[f"path {string}"] = trace.cls_path[i].flatten().tolist()
        for head in (0, 1):
            expected[f"result {head} {string}"] = [trace.means[i, head, 0, 0]]
    for head in (0, 1):
        expected[f"query {head}"] = [letters.Q[0, head, 0, 0]]
        for position, letter in enumerate("abc", start=1):
            expected[f"key {head} {letter}"] = [letters.K[0, head, position, 0]]
            expected[f"value {head} {letter}"] = [letters.V[0, head, position, 0]]
        for position, letter in enumerate(occurring, start=1):
            expected[f"score {head} {letter}"] = [table.attention_scores[0, head, 0, position]]
            expected[f"weight {head} {letter}"] = [table.attention_weights[0, head, 0, position]]
    return {name: [float(x) for x in values] for name, values in expected.items()}


def wait_for_horizon(explorer: Locator) -> str:
    expect(explorer.locator(".horizon")).to_have_attribute("data-current", "true", timeout=10_000)
    return explorer.locator(".horizon").inner_text()


@pytest.mark.parametrize("num_edits", [30, pytest.param(400, marks=pytest.mark.weekly)])
def test_all_views_agree_with_the_model_after_random_edits(page, explorer, num_edits):
    rng = random.Random(0)
    handles = [explorer.locator(f'.handle[data-vector="{name}"]') for name in ("CLS", "a", "b", "c", "W_K.0", "W_V.0")]
    numbers = explorer.locator("input.number")
    for edit in range(num_edits):
        kind = rng.choice(["key", "key", "type", "step", "undo", "drag"])
        if kind == "key":
            rng.choice(handles).first.focus()
            page.keyboard.press(
                rng.choice(["", "Shift+"]) + rng.choice(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"])
            )
        elif kind == "type":
            field = numbers.nth(rng.randrange(36))
            field.fill(f"{rng.uniform(-3, 3):.3f}")
            field.press("Enter")
        elif kind == "step":
            numbers.nth(rng.randrange(36)).press(rng.choice(["ArrowUp", "Shift+ArrowDown"]))
        elif kind == "undo" and edit % 3 == 0:
            explorer.get_by_label(rng.choice(["undo", "redo"])).click(force=True)
        elif kind == "drag":
            handle = rng.choice(handles[:4]).first
            handle.scroll_into_view_if_needed()
            x, y = middle(handle)
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + rng.uniform(-40, 40), y + rng.uniform(-40, 40), steps=3)
            page.mouse.up()
    in_step(page)
    settle(page)
    shown, found = quantities(explorer), state(page)
    expected = expected_quantities(found)
    assert shown.keys() == expected.keys()
    for name, values in expected.items():
        assert shown[name] == pytest.approx(values, rel=1e-12, abs=1e-12), name
    fields = numbers.evaluate_all("nodes => nodes.map(node => Number(node.dataset.value))")
    flat = json.loads(
        execute(page, "import numpy; print([float(x) for m in explorer.weights.values() for x in numpy.ravel(m)])")
    )
    assert fields == flat
    wrong = shortest_wrong_string(build(found["weights"]))
    assert wrong.string in wait_for_horizon(explorer)


def test_positions_are_to_scale(page, explorer):
    for node in explorer.locator("[data-x]").all():
        limit = float(node.locator("xpath=ancestor::*[local-name()='svg']").get_attribute("data-limit"))
        value, x = float(node.get_attribute("data-value")), float(node.get_attribute("data-x"))
        assert x == pytest.approx(190 + 180 * value / limit) and abs(value) < limit


def test_python_and_the_page_tell_each_other(page, explorer):
    execute(page, "seen = []; explorer.observe(lambda change: seen.append(change.name))")
    execute(page, "explorer.weights = explorer.weights | {'a': [1.5, -0.5]}; explorer.strings = ['ab', 'c']")
    expect(explorer.locator(".sentences button").first).to_have_text("ab")
    assert explorer.locator('input[data-address="a..0"]').input_value() == "1.5000"
    explorer.locator('.handle[data-vector="b"]').focus()
    page.keyboard.press("ArrowUp")
    in_step(page)
    assert "weights" in execute(page, "print(seen)")
    before = execute(page, "print(explorer.weights['b'][1])")
    explorer.get_by_label("undo").click()
    in_step(page)
    assert float(execute(page, "print(explorer.weights['b'][1])")) == pytest.approx(float(before) - 0.05)
    execute(page, "explorer.epoch = 3")
    expect(explorer.locator(".film")).to_contain_text("epoch 3")
    assert (
        execute(page, "print((explorer.model.classifier.weight == run.model_at(3).classifier.weight).all().item())")
        == "True\n"
    )
    explorer.locator(".film input").press("ArrowRight")
    in_step(page)
    assert (
        execute(page, "print(explorer.epoch, explorer.weights == explorer.models['seed 5']['epochs'][4])") == "4 True\n"
    )
    explorer.get_by_label("κ =").fill("0.5")
    assert wait_for_horizon(explorer).startswith("Right about every string")
    in_step(page)
    assert execute(page, "print(explorer.length_scaling, explorer.model.config.length_scaling)") == "0.5 0.5\n"
    execute(page, "explorer.epoch = run.best_epoch; explorer.length_scaling = 0.5")
    expect(explorer.locator(".horizon")).to_contain_text("Right about every string of every length")


def test_two_explorers_do_not_talk_to_each_other(page, explorer):
    second = page.locator(".toy-explorer").nth(1)
    before, shown = state(page, "other"), quantities(second)
    explorer.get_by_label("1", exact=True).check()
    assert second.get_by_label("0", exact=True).is_checked()
    explorer.locator('.handle[data-vector="a"]').focus()
    page.keyboard.press("Shift+ArrowDown")
    wait_for_horizon(explorer)
    in_step(page)
    assert state(page, "other") == before and quantities(second) == shown
    assert "abc{2165}" in wait_for_horizon(second)
    assert state(page)["weights"] != before["weights"]
    explorer.get_by_label("0", exact=True).check()


def test_the_keyboard_stays_with_the_handle(page, explorer):
    """JupyterLab would collapse the heading, and hide the cell, at an arrow key that reaches it."""
    explorer.locator('.handle[data-vector="c"]').focus()
    for key in ["ArrowLeft", "ArrowUp", "Home", "ArrowRight"]:
        page.keyboard.press(key)
    for selector in [".choice input", ".string", "select, .film input", "summary"]:
        explorer.locator(selector).first.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("d")
        page.keyboard.press("d")
    assert page.locator(".jp-Notebook .jp-Cell:visible").count() == 4
    expect(explorer).to_be_visible()


def test_a_drag_goes_on_while_python_sets_something_else(page, explorer):
    target = explorer.locator('.path .handle[data-vector="W_O.0"]')
    target.scroll_into_view_if_needed()
    x, y = middle(target)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 10, y + 10, steps=5)
    execute(page, "explorer.strings = ['ab', 'b', 'abc']")
    expect(explorer.locator(".sentences button")).to_have_text(["ab", "b", "abc"])
    page.mouse.move(x + 30, y + 10, steps=5)
    page.mouse.up()
    in_step(page)
    assert abs(middle(target)[0] - (x + 30)) < 3 and abs(middle(target)[1] - (y + 10)) < 3
    assert state(page)["strings"] == ["ab", "b", "abc"]


def test_views_can_be_set(page, explorer):
    execute(page, "explorer.views = ['verdict', 'numbers']")
    expect(explorer.locator(".card")).to_have_count(2)
    assert "ValueError" in execute(
        page, "try:\n    explorer.views = ['nonsense']\nexcept ValueError: print('ValueError')"
    )
    execute(page, f"explorer.views = {list(VIEWS)}")
    expect(explorer.locator(".card")).to_have_count(7)


def test_the_horizon_follows_a_drag(page, explorer):
    """Each frame has its own, and it is that of the frame."""
    page.evaluate(
        """() => {
            window.sentences = new Set();
            const horizon = document.querySelector(".toy-explorer .horizon");
            new MutationObserver(() => window.sentences.add(horizon.textContent))
                .observe(horizon, { childList: true, characterData: true, subtree: true });
        }"""
    )
    handle = explorer.locator('.handle[data-vector="a"]')
    handle.scroll_into_view_if_needed()
    x, y = middle(handle)
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(60):
        page.mouse.move(x + step, y + step)
        settle(page)
    seen = page.evaluate("() => window.sentences.size")
    page.mouse.up()
    assert seen >= 20
    in_step(page)
    wrong = shortest_wrong_string(build(state(page)["weights"]))
    assert wrong.string in wait_for_horizon(explorer)


def test_the_verdict_stays_in_sight(page, explorer):
    verdict = explorer.locator(".verdict")
    for card in ("map", "heads", "numbers"):
        explorer.locator(f".card.{card}").evaluate("node => node.scrollIntoView({ block: 'end' })")
        settle(page)
        box = verdict.bounding_box()
        shown = page.locator(".jp-WindowedPanel-outer").bounding_box()
        assert shown["y"] - 1 <= box["y"] and box["y"] + box["height"] < shown["y"] + shown["height"] / 2, card


def test_control_and_a_letter_are_the_pages(page, explorer):
    handle = explorer.locator('.handle[data-vector="a"]')
    handle.focus()
    before = quantities(explorer)
    page.keyboard.press("ArrowUp")
    settle(page)
    assert quantities(explorer) != before
    page.keyboard.press("Control+z")
    settle(page)
    assert quantities(explorer) == before
    page.keyboard.press("Control+Shift+z")
    settle(page)
    assert quantities(explorer) != before
    page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.dirty = true; }")
    page.keyboard.press("Control+s")
    page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")


def test_training_under_the_hand(page, explorer):
    """A vector stays where it is held, the rest learns; Python is told when it rests; undo returns to before."""
    execute(page, "explorer.epoch = 0")
    in_step(page)
    before = state(page)["weights"]
    explorer.get_by_label("train", exact=True).click()
    explorer.locator(".training").evaluate("node => node.scrollIntoView({ block: 'end' })")
    expect(explorer.locator(".training .caption").first).to_contain_text(re.compile("Epoch [1-9]"))
    explorer.get_by_label("a frame").fill("0")  # slow motion: now it can be taken hold of
    held, moving = (explorer.locator(f'.embeddings .handle[data-vector="{name}"]') for name in "ab")
    x, y = middle(held)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 15, y + 5, steps=3)
    settle(page)
    values = held.get_attribute("data-value"), moving.get_attribute("data-value")
    expect(moving).not_to_have_attribute("data-value", values[1])
    assert held.get_attribute("data-value") == values[0]
    page.mouse.up()
    assert state(page)["weights"] == before
    explorer.get_by_label("pause training").click()
    in_step(page)
    assert state(page)["weights"] != before
    wrong = shortest_wrong_string(build(state(page)["weights"]))
    assert wrong.string in wait_for_horizon(explorer)
    explorer.get_by_label("undo").click()
    in_step(page)
    assert state(page)["weights"] == before


def test_axe_finds_nothing(page):
    for summary in page.locator("summary").all():
        summary.click()
    assert violations(page, ".toy-explorer") == []
    for summary in page.locator("summary").all():
        summary.click()


def test_dark_and_narrow(page, explorer):
    page.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    settle(page)
    assert explorer.evaluate("node => getComputedStyle(node).colorScheme") == "dark"
    assert violations(page, ".toy-explorer") == []
    explorer.evaluate("node => { node.style.width = '400px'; }")
    settle(page)
    assert overlapping_labels(page) == []
    assert explorer.evaluate("node => node.scrollWidth <= 400")
    explorer.evaluate("node => { node.style.width = ''; }")
    page.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'true'")


@pytest.mark.weekly
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_to_its_end(lab, spare, name):
    page = lab.open(name, spare)
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


RUN_IN_A_NEW_CELL = """async source => {
    const { content } = jupyterapp.shell.currentWidget;
    content.activeCellIndex = content.widgets.length - 1;
    await jupyterapp.commands.execute("notebook:insert-cell-below");
    content.activeCell.model.sharedModel.setSource(source);
    await jupyterapp.commands.execute("notebook:run-cell");
}"""


def test_a_control_of_ones_own_as_the_readme_shows(page, explorer):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (shown,) = [block for block in blocks if "FloatSlider" in block]
    page.evaluate(RUN_IN_A_NEW_CELL, shown)
    picture = page.locator(".jp-OutputArea-output img").first
    field = explorer.locator('input[data-address="a..0"]')
    expect(picture).to_be_visible()
    before = picture.get_attribute("src")
    execute(page, "slider.value = 1.5")
    expect(field).to_have_value("1.5000")
    expect(picture).not_to_have_attribute("src", before)
    page.locator(".widget-slider .noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    expect(field).to_have_value("1.5500")
    execute(page, "scaling.value = 0.5")
    expect(explorer.locator(".controls").first).to_contain_text("κ = 0.50")
    assert execute(page, "import time; time.sleep(0.1); print(explorer.length_scaling)") == "0.5\n"
    execute(page, "explorer.length_scaling = 1.0")
    expect(page.locator(".widget-readout").nth(1)).to_have_text("1.00")


@pytest.mark.weekly
def test_a_page_that_is_loaded_again_in_the_middle_of_a_drag(lab):
    """Page and kernel come to agree on whole numbers, and the next key moves both."""
    page = open_explorers(lab, "restarted.ipynb")
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    target = page.locator('.toy-explorer .path .handle[data-vector="W_O.0"]').first
    target.scroll_into_view_if_needed()
    x, y = middle(target)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 10, steps=5)
    page.reload()
    page.mouse.up()
    expect(page.locator(".toy-explorer .cards")).to_have_count(2, timeout=30_000)
    in_step(page)
    before = state(page)["weights"]
    page.locator('.toy-explorer .handle[data-vector="a"]').first.focus()
    page.keyboard.press("Shift+ArrowDown")
    in_step(page)
    weights = state(page)["weights"]
    assert {name for name in weights if weights[name] != before[name]} == {"a"}
    assert shortest_wrong_string(build(weights)).string in wait_for_horizon(page.locator(".toy-explorer").first)
    assert page.errors == []
    lab.close(page)


@pytest.mark.weekly
def test_a_kernel_that_was_restarted_or_is_dead(lab, spare):
    page = open_explorers(lab, "restarted.ipynb", spare)
    explorer = page.locator(".toy-explorer").first
    wait_for_horizon(explorer)
    page.evaluate("() => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()")
    page.wait_for_function(f"() => {SESSION}.kernel.status === 'idle'")
    before = quantities(explorer)
    explorer.locator('.handle[data-vector="a"]').focus()
    page.keyboard.press("Shift+ArrowDown")
    expect(explorer.locator(".problem", has_text="does not answer")).to_be_visible(timeout=10_000)
    assert quantities(explorer) != before
    run_all(page)
    expect(page.locator(".toy-explorer .cards")).to_have_count(2, timeout=30_000)
    explorer.locator('.handle[data-vector="a"]').focus()
    page.keyboard.press("ArrowDown")
    assert "Right" in wait_for_horizon(explorer)
    page.evaluate("() => jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    page.wait_for_function(f"() => !{SESSION}?.kernel")
    before = quantities(explorer)
    explorer.locator('.handle[data-vector="a"]').focus()
    page.keyboard.press("Shift+ArrowDown")
    expect(explorer.locator(".problem", has_text="does not answer")).to_be_visible(timeout=10_000)
    assert quantities(explorer) != before
