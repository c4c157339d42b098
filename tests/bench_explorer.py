"""How fast the explorer follows the hand in a real JupyterLab, beside `interact` with the same pictures."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import nbformat
from browser import Lab, jupyterlab, launch, run_all
from playwright.sync_api import Page

CELLS = [
    "%matplotlib inline\n"
    "from toy_transformer import experiments\n"
    "from toy_transformer.explorer import explore\n"
    "from toy_transformer.pictures import views\n"
    "from toy_transformer.weights import build, numbers_of\n"
    "from ipywidgets import interact\n"
    "run = experiments.run('walkthrough')[0]",
    "explore(run)",
    "def draw(x=(-3.0, 3.0, 0.05)):\n"
    "    numbers = numbers_of(run.model)\n"
    "    model = build(numbers | {'a': [x, numbers['a'][1]]})\n"
    "    return views.draw_panels({'model': (model, ['aac', 'baac'])}, ['embeddings', 'heads', 'path', 'map'])\n"
    "interact(draw);",
]
STEPS, DRAGS = 60, 3
EXPLORER = ("explorer, all views", '.handle[data-vector="a"]', '.handle[data-vector="a"]', ".toy-explorer")
INTERACT = ("interact, inline matplotlib", ".noUi-handle", ".jp-OutputArea-output img", ".widget-slider")

MEASURE = """([picture, root]) => {
    const signature = () => document.querySelector(picture)?.src ?? document.querySelector(picture)?.outerHTML;
    const measured = window.measured = { delays: [], changes: 0, asked: null, last: null, changedAt: null };
    for (const type of ["keydown", "pointermove"]) {
        document.querySelector(root).ownerDocument.addEventListener(type, (event) => {
            measured.asked ??= event.timeStamp;
            measured.last = event.timeStamp;
        }, true);
    }
    let old = signature();
    const channel = new MessageChannel(); // its message comes after the frame has been drawn
    channel.port1.onmessage = () => {
        const now = signature();
        if (now === old) return;
        old = now;
        measured.changes += 1;
        measured.changedAt = performance.now();
        if (measured.asked !== null) measured.delays.push(measured.changedAt - measured.asked);
        measured.asked = null;
    };
    const frame = () => { channel.port2.postMessage(null); requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


MOVE = """async ([handle, x, y]) => {
    const node = document.querySelector(handle);
    const start = performance.now();
    measured.changes = 0;
    for (let i = 0; performance.now() - start < 2000; i++) {
        await new Promise(requestAnimationFrame);
        const to = x + Math.abs(((2 * i + 70) % 280) - 140) - 70; // two pixels a frame, to and fro
        const at = { clientX: to, clientY: y, buttons: 1 };
        const options = { ...at, bubbles: true, cancelable: true, pointerId: 1, pointerType: "mouse" };
        node.dispatchEvent(new PointerEvent("pointermove", options));
        node.dispatchEvent(new MouseEvent("mousemove", options)); // what ipywidgets' slider listens to
    }
    return 1000 * measured.changes / (performance.now() - start);
}"""


def bench(page: Page, name: str, handle: str, picture: str, root: str) -> None:
    page.locator(handle).first.scroll_into_view_if_needed()
    page.evaluate(MEASURE, [picture, root])
    for _ in range(DRAGS):  # until the browser has compiled what runs in each frame
        drag(page, handle)
    rates, lags = zip(*(drag(page, handle) for _ in range(DRAGS)), strict=True)
    delays = sorted(step(page, handle) for _ in range(STEPS))
    print(
        f"{name:34} median {median(delays):4.0f} ms, 95th percentile {delays[int(0.95 * STEPS)]:4.0f} ms, "
        f"{median(rates):3.0f} frames a second in a drag, {median(lags):4.0f} ms behind its end",
        flush=True,
    )


def step(page: Page, handle: str) -> float:
    """Milliseconds from a key to the frame with the new picture."""
    page.locator(handle).first.focus()
    page.evaluate("() => { measured.delays = []; measured.asked = null; }")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => measured.delays.length", timeout=10_000)
    page.wait_for_timeout(60)
    return page.evaluate("() => measured.delays[0]")


def drag(page: Page, handle: str) -> tuple[float, float]:
    """Pictures a second while the pointer moves in each frame; milliseconds from the last move to the last picture.

    The vector is back at its trained numbers afterwards: else it would come to an end of its plane, and stop there.
    """
    box = page.locator(handle).first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    rate = page.evaluate(MOVE, [handle, x, y])
    page.wait_for_timeout(600)
    lag = page.evaluate("() => Math.max(0, measured.changedAt - measured.last)")
    page.mouse.up()
    page.locator(handle).first.press("Home")
    page.wait_for_timeout(500)
    return rate, lag


def horizon_in_frame(page: Page) -> float:
    """The share of keys of which the next frame has the horizon already, the one that stays."""
    return page.evaluate(
        """async (steps) => {
            const horizon = document.querySelector(".toy-explorer .horizon");
            const handle = document.querySelector('.handle[data-vector="a"]');
            const frame = () => new Promise(requestAnimationFrame);
            let shown = 0;
            for (let i = 0; i < steps; i++) {
                handle.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
                await frame();
                const first = horizon.textContent;
                for (let wait = 0; wait < 10; wait++) await frame();
                shown += horizon.dataset.current === "true" && horizon.textContent === first;
            }
            return shown / steps;
        }""",
        STEPS,
    )


def training(page: Page) -> tuple[float, float]:
    """Frames and epochs a second while the explorer trains by an epoch a frame."""
    explorer = page.locator(".toy-explorer")
    explorer.get_by_label("a frame").fill("6")
    explorer.get_by_label("train", exact=True).click()
    page.wait_for_timeout(1000)
    count = "() => [measured.changes, performance.now(), document.querySelector('.training .caption').textContent]"
    changes, start, text = page.evaluate(count)
    epoch = epochs_in(text)
    page.wait_for_timeout(3000)
    changes_after, end, text = page.evaluate(count)
    explorer.get_by_label("pause training").click()
    seconds = (end - start) / 1000
    return (changes_after - changes) / seconds, (epochs_in(text) - epoch) / seconds


def epochs_in(text: str) -> int:
    return int(re.search(r"Epoch ([0-9]+)", text)[1])


def cost_of_a_frame(page: Page) -> str:
    """Where the time of a drag's frames goes, as Chromium counts it."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def metrics() -> dict[str, float]:
        return {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}

    before, changes = metrics(), page.evaluate("() => measured.changes = 0")
    drag(page, EXPLORER[1])
    after, changes = metrics(), page.evaluate("() => measured.changes")
    parts = {
        "script": "ScriptDuration",
        "style": "RecalcStyleDuration",
        "layout": "LayoutDuration",
        "all": "TaskDuration",
    }
    return ", ".join(f"{part} {1000 * (after[name] - before[name]) / changes:.1f} ms" for part, name in parts.items())


def main(report: Callable[[str], None] = print) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere, launch() as browser:
        metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
        cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), Path(folder) / "bench.ipynb")
        with jupyterlab(browser, Path(folder), Path(elsewhere)) as lab:
            page = open_bench(lab)
            bench(page, *EXPLORER)
            report(f"of each frame of a drag: {cost_of_a_frame(page)}")
            report(f"the horizon is in the same frame as the rest: {horizon_in_frame(page):.0%} of {STEPS} keys")
            frames, epochs = training(page)
            report(f"training, an epoch a frame: {frames:.0f} frames and {epochs:.0f} epochs a second")
            bench(page, *INTERACT)


def open_bench(lab: Lab) -> Page:
    page = lab.open("bench.ipynb")
    run_all(page)
    page.wait_for_selector(".toy-explorer .cards")
    page.wait_for_selector(".jp-OutputArea-output img")
    page.wait_for_timeout(1000)
    return page


if __name__ == "__main__":
    main()
