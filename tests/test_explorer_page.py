"""The explorer as a page of its own, in a real browser with the network off."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from browser import violations, watch
from photograph import PAGE, PICTURE, digest_of_page
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import figures
from toy_transformer import experiments
from toy_transformer.explorer import Explorer, explore
from toy_transformer.explorer.verdict import sentence_on_horizon
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.weights import build, numbers_of

FRAME, FILM_STEP, REST = 50, 400, 600  # milliseconds
SHAPES = {name: np.array(of) for name, of in numbers_of(Transformer()).items()}
STRINGS = ["aac", "baac", "ab{100}", "abc{3000}"]
VECTORS = [
    "CLS", "PAD", "a", "b", "c", "W_Q.0", "W_K.0", "W_V.0", "W_Q.1", "W_K.1", "W_V.1",
    "W_O.0", "W_O.1", "W_in.0", "W_in.1", "W_out.0", "W_out.1", "classifier.0",
]  # fmt: skip


@pytest.fixture(scope="module")
def seeds(runs) -> dict[str, experiments.Run]:
    return {f"seed {run.seed}": run for run in runs["all_initializations"]}


@contextmanager
def _opened(browser: Browser, **context) -> Iterator[Page]:
    """Give a page without a network; at the end it has had no error, and has asked for nothing from a network."""
    context = browser.new_context(offline=True, **context)
    context.set_default_timeout(15_000)
    page = context.new_page()
    errors, requests = watch(page), []
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert errors == []
    assert requests and all(url.startswith(("file:", "blob:", "data:")) for url in requests)


def _load(page: Page, path: Path) -> Page:
    page.goto(path.as_uri())
    page.wait_for_selector(".toy-explorer .card")
    return page


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens an explorer in a page of its own."""
    with ExitStack() as stack:

        def open_it(explorer: Explorer | Path, width: int = 1180, scheme: str = "light", clock: bool = False) -> Page:
            path = explorer
            if isinstance(explorer, Explorer):
                explorer.to_html(path := tmp_path / f"{id(explorer)}.html")
            viewport = dict(width=width, height=900)
            page = stack.enter_context(_opened(browser, viewport=viewport, color_scheme=scheme))
            if clock:
                page.clock.install(time=0)
            _load(page, path)
            if clock:  # until it is told to pause, it goes on by itself as well
                page.clock.pause_at(3600)
            return page

        yield open_it


@pytest.fixture(scope="module")
def path(seeds, tmp_path_factory) -> Path:
    explore(seeds, STRINGS).to_html(path := tmp_path_factory.mktemp("page") / "explorer.html")
    return path


@pytest.fixture(scope="module")
def tab(browser) -> Iterator[Page]:
    with _opened(browser, viewport=dict(width=1180, height=900)) as page:
        yield page


@pytest.fixture
def page(tab, path) -> Page:
    """The explorer of eight models as it begins."""
    return _load(tab, path)


def handle(page: Page, name: str):
    """The handle of a vector, on the screen."""
    if name.startswith(("W_Q", "W_K", "W_V")):
        page.locator(".embeddings .choice").first.get_by_label(name[-1], exact=True).check()
    for arrows, matrix in {"attention": "W_O", "feed-forward in": "W_in", "feed-forward out": "W_out"}.items():
        if name.startswith(matrix):
            page.get_by_label(arrows, exact=True).check()
    return page.locator(f'.handle[data-vector="{name}"]').first


def middle(target) -> tuple[float, float]:
    """Where the middle of a handle's point, or of its arrow's tip, is on the screen."""
    box = target.locator(".halo").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def fields(page: Page) -> dict[str, float]:
    """All the numbers as the page holds them, by matrix, row and column."""
    pairs = page.eval_on_selector_all(
        "input.number", "nodes => nodes.map(node => [node.dataset.address, node.dataset.value])"
    )
    return {address: float(value) for address, value in pairs}


def text_of(page: Page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def settle(page: Page) -> None:
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def changed(before: dict, after: dict) -> dict[str, float]:
    return {address: after[address] - before[address] for address in before if after[address] != before[address]}


@pytest.fixture(scope="module")
def untouched(browser, path) -> Iterator[Page]:
    """The same for tests that leave it as it was."""
    with _opened(browser, viewport=dict(width=1180, height=900)) as page:
        yield _load(page, path)


@pytest.mark.parametrize("name", VECTORS)
def test_each_vector_can_be_dragged_and_nudged(untouched, name):
    page = untouched
    before, logits = fields(page), text_of(page, ".sentences")
    assert len(before) == 36
    target = handle(page, name)
    target.scroll_into_view_if_needed()
    frame = [
        float(x) for x in target.locator("xpath=ancestor::*[local-name()='svg']").get_attribute("data-frame").split(",")
    ]
    per_pixel = frame[2] / target.locator("xpath=ancestor::*[local-name()='svg']").bounding_box()["width"]
    x, y = middle(target)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 15, y - 10, steps=5)
    page.mouse.up()
    settle(page)
    dragged = changed(before, fields(page))
    assert sorted(dragged.values()) == pytest.approx([10 * per_pixel, 15 * per_pixel], abs=0.006)
    assert text_of(page, ".sentences") != logits or name == "PAD"

    after = fields(page)
    target.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowUp")
    settle(page)
    assert sorted(changed(after, fields(page)).values()) == pytest.approx([-0.05, 0.5])
    page.keyboard.press("Home")
    settle(page)
    assert fields(page) == before and text_of(page, ".sentences") == logits


def test_undo_redo_and_reset(page):
    start = fields(page)
    for name in ["a", "b"]:
        handle(page, name).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
    settle(page)
    moved = fields(page)
    assert changed(start, moved) == pytest.approx({"a..0": 0.1, "b..0": 0.1})
    page.get_by_label("undo").click()
    settle(page)
    assert changed(start, fields(page)) == pytest.approx({"a..0": 0.1})
    page.keyboard.press("Control+y")
    settle(page)
    assert fields(page) == moved
    page.get_by_label("undo").click()
    page.get_by_label("redo").click()
    settle(page)
    assert fields(page) == moved
    page.get_by_label("reset all numbers").click()
    settle(page)
    assert fields(page) == start
    for _ in range(3):
        page.get_by_label("undo").click()
        settle(page)
    assert fields(page) == start and page.get_by_label("undo").get_attribute("aria-disabled") == "true"
    page.get_by_label("undo").click(force=True)
    settle(page)
    assert fields(page) == start


def test_typing_a_number(page):
    field, before = page.get_by_label("W_V, head 1, dim 0"), fields(page)
    field.fill("−2.5")
    field.press("Enter")
    settle(page)
    assert changed(before, fields(page)) == pytest.approx({"W_V.1.0": -2.5 - before["W_V.1.0"]})
    for bad, reason in [
        ("x", "“x” is not a number"),
        ("", "is not a number"),
        ("1e9", "too large"),
        ("0x10", "number"),
    ]:
        field.fill(bad)
        field.press("Enter")
        settle(page)
        assert reason in text_of(page, ".numbers .problem") and field.get_attribute("aria-invalid") == "true"
        assert fields(page)["W_V.1.0"] == -2.5
        assert field.input_value() == bad
    field.press("Escape")
    settle(page)
    assert field.input_value() == "−2.5000" and page.locator(".numbers .problem").inner_text() == ""
    field.fill("1")
    field.press("Enter")
    settle(page)
    assert page.locator(".numbers .problem").inner_text() == "" and field.get_attribute("aria-invalid") is None


def test_scrubbing_and_stepping_a_number(page):
    field, before = page.get_by_label("W_in, unit 1, dim 1"), fields(page)
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    x, y = box["x"] + 30, box["y"] + 8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y, steps=6)
    page.mouse.up()
    settle(page)
    moved = fields(page)["W_in.1.1"]
    assert moved == pytest.approx(before["W_in.1.1"] - 0.6, abs=0.006)
    assert field.input_value() == f"{moved:.4f}".replace("-", "−")
    field.press("ArrowUp")
    settle(page)
    assert fields(page)["W_in.1.1"] == pytest.approx(moved + 0.05)


def test_strings_are_read_or_refused_with_a_reason(page):
    field = page.locator(".control.strings input")
    field.fill("ab, b{7}a ,c")
    field.press("Enter")
    settle(page)
    assert page.locator(".sentences button").all_inner_texts() == ["ab", "b{7}a", "c"]
    for bad, reason in [
        ("abd", "“abd”, position 2: expected a, b, c or such as b{100}, found 'd'"),
        ("a{0}", "position 0"),
        ("a{", "position 0"),
        ("", "found the end"),
        ("a,,b", "found the end"),
        ("a{9999999999999999}", "longer than"),
        (",".join("abcabcabcab"), "11 strings: at most 10"),
    ]:
        field.fill(bad)
        field.press("Enter")
        settle(page)
        assert reason in text_of(page, ".controls .problem")
        assert page.locator(".sentences button").all_inner_texts() == ["ab", "b{7}a", "c"]
        assert field.input_value() == bad
    field.fill("c")
    field.press("Enter")
    settle(page)
    assert page.locator(".controls .problem").first.inner_text() == ""


def test_a_code_brings_the_state_back(page, open_page, seeds):
    page.get_by_label("model", exact=True).select_option("seed 2")
    handle(page, "c").focus()
    page.keyboard.press("Shift+ArrowUp")
    page.get_by_text("this state as a code").click()
    settle(page)
    code, numbers, verdict = (
        page.locator(".control.code input").input_value(),
        fields(page),
        text_of(page, ".sentences"),
    )
    assert len(code) < 310
    other = open_page(explore(seeds, ["ab"]))
    other.get_by_text("this state as a code").click()
    settle(other)
    field, start = other.locator(".control.code input"), fields(other)
    middle = len(code) // 2
    for bad, reason in [
        ("", "begins with TT2"),
        ("hello", "begins with TT2"),
        (code[:-30], "parts"),
        (code[:middle] + "x" + code[middle + 1 :], "missing or changed"),
        (code.replace("aac", "aab"), "missing or changed"),
    ]:
        field.fill(bad)
        field.press("Enter")
        settle(other)
        expect(other.locator("details.code + .problem")).to_contain_text(reason)
        assert fields(other) == start
    field.fill(f"  {code} ")
    field.press("Enter")
    settle(other)
    assert fields(other) == numbers and text_of(other, ".sentences") == verdict
    assert other.get_by_label("model", exact=True).input_value() == "seed 2"
    other.get_by_label("undo").click()
    settle(other)
    assert fields(other) == start


@pytest.fixture
def film(open_page, seeds) -> Page:
    """A page whose clock goes on only when it is told to."""
    return open_page(explore(seeds, STRINGS), clock=True)


def test_the_epochs_play_as_a_film(film, seeds):
    run = seeds["seed 0"]
    epochs = len(run.weights) - 1
    slider = film.locator(".film input")
    assert slider.input_value() == str(run.best_epoch)
    slider.fill("0")
    film.clock.run_for(FRAME)
    assert fields(film)["a..0"] == run.model_at(0).embedding.weight[2, 0].item()
    film.get_by_label("replay the epochs").click()
    for epoch in range(1, epochs + 1):
        film.clock.run_for(FILM_STEP)
        assert slider.input_value() == str(epoch)
        if epoch < epochs:
            assert film.get_by_label("pause the replay").is_visible()
    film.clock.run_for(FILM_STEP)
    assert film.get_by_label("replay the epochs").is_visible()
    assert fields(film)["a..0"] == run.model_at(epochs).embedding.weight[2, 0].item()
    film.get_by_label("undo").click()
    film.clock.run_for(FRAME)
    assert slider.input_value() == "0"


def type_into(page: Page, address: str, text: str) -> None:
    field = page.locator(f'input.number[data-address="{address}"]')
    field.fill(text)
    field.press("Enter")


def test_a_hand_ends_the_film_and_undo_brings_back_where_it_was(film):
    play, slider = film.get_by_role("button", name="replay the epochs"), film.locator(".film input")
    best_epoch = int(slider.input_value())
    play.focus()
    film.keyboard.press("Enter")
    film.clock.run_for(2 * FILM_STEP)
    assert int(slider.input_value()) == best_epoch + 2
    assert film.evaluate("() => document.activeElement.getAttribute('aria-label')") == "pause the replay"
    type_into(film, "a..0", "3")
    film.clock.run_for(2 * FILM_STEP)
    assert play.is_visible()
    edited = fields(film)
    assert edited["a..0"] == 3
    play.click()
    film.clock.run_for(2 * FILM_STEP)
    assert fields(film) != edited
    film.get_by_role("button", name="undo").click()
    film.clock.run_for(2 * FILM_STEP)
    assert fields(film) == edited
    film.get_by_role("button", name="redo").click()
    film.clock.run_for(FRAME)
    assert fields(film) != edited


def test_what_was_refused_goes_with_the_next_change(page):
    type_into(page, "a..0", "abc")
    expect(page.locator(".problem", has_text="abc")).to_be_visible()
    type_into(page, "b..0", "2")
    field = page.locator('input.number[data-address="a..0"]')
    expect(field).not_to_have_attribute("aria-invalid", "true")
    assert float(field.input_value().replace("−", "-")) == pytest.approx(fields(page)["a..0"], abs=1e-4)
    expect(page.locator(".problem", has_text="abc")).to_have_count(0)


def test_a_finger_moves_a_handle_and_a_cancelled_drag_changes_nothing(browser, path):
    context = browser.new_context(viewport=dict(width=500, height=900), has_touch=True, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    target = handle(page, "a")
    target.scroll_into_view_if_needed()
    before, scrolled = fields(page), page.evaluate("() => scrollY")
    x, y = middle(target)
    devtools = context.new_cdp_session(page)
    for kind, dy in [("touchStart", 0), *(("touchMove", dy) for dy in range(2, 32, 2)), ("touchEnd", None)]:
        points = [] if dy is None else [{"x": x, "y": y + dy}]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    settle(page)
    moved = fields(page)
    assert moved["a..1"] < before["a..1"] - 0.1 and page.evaluate("() => scrollY") == scrolled
    x, y = middle(target)
    devtools.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    devtools.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x + 9, "y": y}]})
    devtools.send("Input.dispatchTouchEvent", {"type": "touchCancel", "touchPoints": []})
    settle(page)
    assert fields(page) == moved
    context.close()


LIT = [
    ('.handle[data-vector="a"]', ['.handle[data-vector="a"]', 'input[data-address="a..1"]', ".strip g.a"]),
    ('.handle[data-vector="W_K.0"]', ['.handle[data-vector="W_K.0"]', 'input[data-address="W_K.0.1"]']),
    ('input[data-address="W_O.1.0"]', ['.handle[data-vector="W_O.0"]', 'input[data-address="W_O.0.0"]']),
    ('.sentences li:has-text("baac") button', ['g[data-mark="baac"]', '[data-name="path baac"]', ".result.lit"]),
]
TITLE = (".strip .title", [".strip", 'input[data-address="W_Q.0.0"]', '.handle[data-vector="W_V.0"]'])


@pytest.mark.parametrize(
    ("how", "selector", "lit"), [("hover", *TITLE), *((how, *case) for how in ("hover", "focus") for case in LIT)]
)
def test_what_is_hovered_or_focused_lights_up_everywhere(page, how, selector, lit):
    target = page.locator(selector).first
    target.scroll_into_view_if_needed()
    if how == "hover" and "handle" in selector:
        page.mouse.move(*middle(target))
    else:
        getattr(target, how)()
    for other in lit:
        expect(page.locator(other).first).to_have_class(re.compile(r"\blit\b"))
    assert page.locator('input[data-address="c..0"].lit').count() == 0


def test_without_a_kernel_the_horizon_follows_in_the_same_frame(film):
    page = film  # whose clock stands still: the search is given all the time that it needs
    horizon = page.locator(".horizon")
    assert horizon.inner_text() == "Right about every string up to 59 letters; the shortest wrong one is a{59}b."
    before = fields(page)
    handle(page, "a").focus()
    seen = page.evaluate(
        """() => new Promise((done) => {
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
            queueMicrotask(() => done(document.querySelector(".horizon").textContent));
        })"""
    )
    weights = {name: np.zeros_like(of) for name, of in SHAPES.items()}
    for address, number in fields(page).items():
        name, row, column = address.split(".")
        weights[name][(int(row), int(column)) if row else int(column)] = number
    assert fields(page) != before
    assert seen.strip() == sentence_on_horizon(build(weights))
    page.keyboard.press("Home")
    assert "59 letters" in horizon.inner_text()


def test_the_verdict_is_told_once_the_hand_rests(film):
    status = film.get_by_role("status")
    handle(film, "b").focus()
    for _ in range(5):
        film.keyboard.press("ArrowUp")
        film.clock.run_for(REST - FRAME)
        assert status.inner_text() == ""
    film.clock.run_for(2 * FRAME)
    assert "aac logit" in status.inner_text()


def test_the_committed_page_trains_offline(open_page):
    """From a new start, until it is right about its strings; what is pinned stays; undo returns to before."""
    page = open_page(PAGE)
    before = fields(page)
    page.get_by_label("pin embedding of a:").click()
    page.get_by_label("train one epoch").click()
    settle(page)
    moved = changed(before, fields(page))
    assert moved and not {"a..0", "a..1"} & moved.keys()
    expect(page.locator(".training .caption").first).to_contain_text("Epoch 1, step 156")
    page.get_by_label("release all pins").click()
    page.get_by_label("new start").click()
    page.get_by_label("a frame").fill("6")
    page.get_by_label("train", exact=True).click()
    expect(page.locator(".sentences .right")).to_have_count(3, timeout=30_000)
    page.get_by_label("pause training").click()
    settle(page)
    assert page.locator(".chart .loss").get_attribute("d").count("L") > 2
    assert re.search(
        r"loss 0\.\d+, right up to [\d,]+ letters?, after", page.locator(".chart").get_attribute("aria-label")
    )
    for _ in range(3):
        page.get_by_label("undo").click()
    settle(page)
    assert fields(page) == before


def test_a_number_can_be_typed_while_it_trains(page):
    page.get_by_label("a frame").fill("0")
    page.get_by_label("train", exact=True).click()
    field = page.get_by_label("W_V, head 1, dim 0")
    field.focus()
    before = field.input_value()
    expect(page.locator(".training .caption").first).to_contain_text(re.compile("step [1-9][0-9]"))
    assert field.input_value() == before
    page.keyboard.press("Control+a")
    page.keyboard.type("0.25", delay=50)
    assert field.input_value() == "0.25"
    page.get_by_label("pause training").click()


def test_the_verdict_leaves_room_on_a_small_screen(open_page, seeds):
    """With as many strings as fit, too; the sentence on the horizon stays in sight."""
    page = open_page(explore(seeds, ["a", "b", "c", "aa", "ab", "ba", "abc{3000}", "ac", "ca", "cc"]), 320)
    page.set_viewport_size(dict(width=320, height=568))
    page.locator(".card.heads").scroll_into_view_if_needed()
    settle(page)
    verdict, horizon = (page.locator(name).bounding_box() for name in (".verdict", ".horizon"))
    assert verdict["height"] < 0.4 * 568
    assert verdict["y"] <= horizon["y"] and horizon["y"] + horizon["height"] <= verdict["y"] + verdict["height"] + 1


def test_training_tells_the_epoch_now_and_then(film):
    status = film.get_by_role("status")
    film.get_by_label("a frame").fill("0")
    film.get_by_label("train", exact=True).click()
    told = set()
    for _ in range(80):
        film.clock.run_for(100)
        told.add(status.inner_text())
    assert told <= {"", "Training, epoch 0"} and "Training, epoch 0" in told
    film.get_by_label("pause training").click()
    film.clock.run_for(REST + FRAME)
    assert "aac logit" in status.inner_text()


def test_numbers_that_blow_up_stop_the_training(page):
    page.get_by_text("settings, and the last batch").click()
    for label, text in [("learning rate", "10"), ("weight decay", "1")]:
        page.get_by_label(label).fill(text)
        page.get_by_label(label).press("Enter")
    page.get_by_label("train one epoch").click()
    settle(page)
    assert "blew up" in text_of(page, ".training .problem")
    assert page.get_by_label("train", exact=True).is_visible()
    page.get_by_label("learning rate").fill("fast")
    page.get_by_label("learning rate").press("Enter")
    settle(page)
    assert "expected a number" in page.locator(".training .problem", has_text="fast").inner_text()


def test_the_question_can_be_changed(page):
    page.get_by_label("a", exact=True).uncheck()
    settle(page)
    assert "aac" in text_of(page, ".sentences") and fields(page)
    rights = page.locator(".sentences strong").all_inner_texts()
    logits = page.locator(".sentences li").evaluate_all("nodes => nodes.map(node => Number(node.dataset.value))")
    expected = [(logit > 0) == ("b" in string) for logit, string in zip(logits, STRINGS, strict=True)]
    assert [text == "✓ right" for text in rights] == expected
    page.get_by_label("b", exact=True).click()
    settle(page)
    assert page.get_by_label("b", exact=True).is_checked()
    page.get_by_label("a", exact=True).check()
    page.get_by_label("c", exact=True).check()
    page.get_by_label("train", exact=True).click()
    settle(page)
    assert "not asked for" in text_of(page, ".training .problem")


def test_strings_that_are_typed_show_at_once(page):
    field = page.locator(".control.strings input")
    field.fill("")
    field.type("ab, c{3}")
    settle(page)
    assert page.locator(".sentences button").all_inner_texts() == ["ab", "c{3}"]


def test_a_finger_has_room(browser, path):
    context = browser.new_context(viewport=dict(width=390, height=800), has_touch=True, is_mobile=True, offline=True)
    page = context.new_page()
    _load(page, path)
    sizes = page.eval_on_selector_all(
        ".toy-explorer :is(button:not(.pin), select, summary)",
        "nodes => nodes.map(n => n.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height))",
    )
    assert len(sizes) > 10 and min(sizes) >= 43.5
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_nothing_is_cut_off_with_large_text(open_page, seeds):
    """Text of twice the size."""
    page = open_page(explore(seeds, ["aac", "baac"]))
    page.add_style_tag(content=".toy-explorer { font-size: 26px !important; }")
    for width in (400, 320):
        page.set_viewport_size(dict(width=width, height=900))
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, seeds, scheme):
    page = open_page(explore(seeds, STRINGS), scheme=scheme)
    for summary in page.locator("summary").all():
        summary.click()
    page.get_by_label("train one step").click()
    assert violations(page) == []


def overlapping_labels(page: Page) -> list[tuple[str, str]]:
    """Pairs of texts in one picture that cover each other, or leave the picture."""
    pictures = page.eval_on_selector_all(
        ".toy-explorer svg",
        """pictures => pictures.map(picture => [picture, ...picture.querySelectorAll("text")].map(node => {
            const { left, top, right, bottom } = node.getBoundingClientRect();
            return [node.tagName === "svg" ? "" : node.textContent, left, top, right, bottom];
        }))""",
    )
    found = []
    for (_, left, top, right, bottom), *texts in pictures:
        for text, *box in texts:
            if box[0] < left - 1 or box[1] < top - 2 or box[2] > right + 1 or box[3] > bottom + 2:
                found.append((text, "the frame"))
        for (text, *p), (other, *q) in combinations(texts, 2):
            # Lines of text have some air above and below.
            if min(p[2], q[2]) - max(p[0], q[0]) > 1 and min(p[3], q[3]) - max(p[1], q[1]) > 4:
                found.append((text, other))
    return found


@pytest.mark.parametrize("width", [320, 1180, *(pytest.param(width, marks=pytest.mark.weekly) for width in (400, 700))])
def test_nothing_overlaps_or_is_cut_off(open_page, seeds, width):
    page = open_page(explore(seeds, ["aac", "baac", "ab{100}"]), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in seeds:
        page.get_by_label("model", exact=True).select_option(name)
        for choice in ["1", "0", "feed-forward in", "feed-forward out", "attention"]:
            page.get_by_label(choice, exact=True).check()
            settle(page)
            assert overlapping_labels(page) == [], (name, choice)


def test_nothing_moves_away_under_the_hand(open_page, seeds):
    page = open_page(explore(seeds, ["aac", "baac", "ab{100}"]))
    tops = "nodes => nodes.map(node => node.getBoundingClientRect().top + scrollY)"
    for width in (320, 400, 700, 900, 1180):
        page.set_viewport_size(dict(width=width, height=900))
        settle(page)
        before = page.eval_on_selector_all(".cards .card", tops)
        page.locator('.handle[data-vector="a"]').first.focus()
        for key in ["ArrowUp", "Shift+ArrowDown", "Shift+ArrowLeft", "ArrowLeft"]:
            page.keyboard.press(key)
            settle(page)
            now = page.eval_on_selector_all(".cards .card", tops)
            assert now[:2] == pytest.approx(before[:2], abs=1), (width, key)


def test_text_from_outside_stays_text(open_page, seeds):
    name = "</script><script>window.hacked = true</script><b>seed"
    page = open_page(explore({name: seeds["seed 0"], "other": seeds["seed 2"]}))
    assert page.get_by_label("model", exact=True).input_value() == name
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("config", [ModelConfig(hidden_size=16), ModelConfig(hidden_size=3, num_attention_heads=5)])
def test_other_sizes_can_be_looked_at_only(open_page, config):
    page = open_page(explore(Transformer(config).requires_grad_(False)))
    assert page.locator(".handle").count() == page.locator("input.number").count() == 0
    assert page.locator(".strip").count() == config.num_attention_heads
    assert page.locator(".map canvas").count() == 1


# ---------------------------------------------------------------- the page and the picture of `figures/`


def split_page(page: str) -> tuple[str, dict]:
    """A page without its state, and its state."""
    before, state, after = re.split('(?<=id="state">)(.*)(?=</script>\n<script)', page, maxsplit=1)
    return before + after, json.loads(state)


def test_the_committed_page_is_up_to_date(trained_once, tmp_path):
    """`make figures` would write the same page; weights may drift in the last bits from processor to processor."""
    figures.PAGES[PAGE.name]().to_html(tmp_path / PAGE.name)
    committed, committed_state = split_page(PAGE.read_text(encoding="utf-8"))
    fresh, fresh_state = split_page((tmp_path / PAGE.name).read_text(encoding="utf-8"))
    assert committed == fresh
    for state in (committed_state, fresh_state):
        of_models = [model.pop("epochs") for model in state["models"].values()]
        state["numbers"] = [state.pop("weights"), *of_models]
    numbers = [numbers_in(state.pop("numbers")) for state in (committed_state, fresh_state)]
    assert len(numbers[0]) == 36 * 10
    np.testing.assert_allclose(*numbers, atol=1e-3)
    assert committed_state == fresh_state


def numbers_in(nested: object) -> list[float]:
    if isinstance(nested, dict | list):
        return [x for part in (nested.values() if isinstance(nested, dict) else nested) for x in numbers_in(part)]
    return [nested]


def test_the_committed_picture_shows_the_committed_page():
    assert Image.open(PICTURE).text["page"] == digest_of_page()


def test_the_committed_page_opens_offline(open_page):
    page = open_page(PAGE)
    before = fields(page)
    handle(page, "a").focus()
    page.keyboard.press("ArrowRight")
    assert changed(before, fields(page)).keys() == {"a..0"}
    expect(page.locator(".card")).to_have_count(7)
    expect(page.locator(".sentences li")).to_have_count(3)
