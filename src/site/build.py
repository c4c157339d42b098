"""Writes the book as pages, from the committed notebooks, without running them: `make site`.

Sphinx, MyST-NB and sphinx-book-theme make the pages. Before they do, each notebook is made ready: its pictures become
files with their words, its explorers come alive, and what needs Python says so.
"""

import argparse
import base64
import json
import re
import shutil
import sys
import tempfile
from html import escape
from pathlib import Path

import nbformat
from secure import add_policy
from sphinx.cmd.build import build_main

from toy_transformer.explorer import explore
from toy_transformer.explorer.widget import BUNDLE, STATE
from toy_transformer.model import ModelConfig
from toy_transformer.weights import build

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NEEDS_PYTHON = {
    "LivePicture(": "The control of this picture works in JupyterLab",
    "print(exercises.check_": "Checking an answer needs Python",
}
NOTHING = {"text/html": ""}
"""What stands first among folded outputs, for JupyterLab's sake."""

LEFT_TO_THE_PLAYGROUND = {"epochs", "length_scaling", "question"}
"""The controls that the first page does not have."""

GLOSSARY = re.compile(r"## Glossary\n(.*?)\n\n(?=Back to)", re.DOTALL)
STATE_IN_PAGE = re.compile(r'<script type="application/json" id="state">(.*?)</script>', re.DOTALL)


def write_sources(sources: Path) -> None:
    """Put together what Sphinx makes pages of."""
    shutil.copytree(
        HERE, sources, ignore=shutil.ignore_patterns("build.py", "secure.py", "__pycache__"), dirs_exist_ok=True
    )
    static = sources / "_static"
    shutil.copy(BUNDLE, static / "explorer.js")
    shutil.copy(BUNDLE.with_name("explorer.css"), static)
    state = json.loads(STATE_IN_PAGE.search((ROOT / "figures" / "explorer.html").read_text())[1])
    shutil.copy(ROOT / "figures" / "explorer.png", static / "playground.png")
    still = '<img src="_static/playground.png" alt="The playground, which needs JavaScript." loading="lazy">'
    first = state | {"views": [view for view in state["views"] if view not in LEFT_TO_THE_PLAYGROUND]}
    for name, shown in {"index.md": first, "playground.md": state}.items():
        page = sources / name
        page.write_text(page.read_text().replace("{{playground}}", live({"playground": shown}, still)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        nbformat.write(make_ready(path, sources), sources / path.name)


def make_ready(path: Path, sources: Path) -> nbformat.NotebookNode:
    """Give a notebook as its page shows it, and put its pictures and its glossary among the sources."""
    notebook = nbformat.read(path, as_version=4)
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("08-self-attention-not-really.ipynb#Glossary", "glossary.md")
            cell.source = cell.source.replace("[glossary](#Glossary)", "[glossary](glossary.md)")
            if glossary := GLOSSARY.search(cell.source):
                (sources / "glossary.md").write_text(f"# Glossary\n{glossary[1]}\n")
                cell.source = cell.source.replace(glossary[0], "")
            continue
        outputs = [output for output in cell.outputs if output.get("data") != NOTHING]
        cell.outputs = [_page_output(output, sources, f"{path.stem}-{i}-{k}") for k, output in enumerate(outputs)]
        for code, sentence in NEEDS_PYTHON.items():
            if code in cell.source:
                note = f'<p class="needs-python">{sentence}: <a href="run.html">run it yourself</a>.</p>'
                cell.outputs.append(nbformat.v4.new_output("display_data", {"text/html": note}))
    return notebook


def _page_output(output: nbformat.NotebookNode, sources: Path, name: str) -> nbformat.NotebookNode:
    """A picture becomes a file, and where it is the still of explorers, these come alive in its place."""
    data = output.get("data", {})
    if "text/html" in data:
        data["text/html"] = data["text/html"].replace("<th></th>", "<td></td>")  # a heading of nothing
    if "image/png" not in data:
        return output
    png, seen = base64.b64decode(data["image/png"]), output.metadata["image/png"]
    (sources / "_static" / f"{name}.png").write_bytes(png)
    width, height = (int.from_bytes(png[start : start + 4]) for start in (16, 20))  # from a PNG's header
    size = f'width="{seen["width"]}" height="{round(seen["width"] * height / width)}"'
    still = f'<img src="_static/{name}.png" alt="{escape(seen["alt"])}" {size} loading="lazy">'
    shown = live(json.loads(data[STATE]), still) if STATE in data else f'<div class="still" tabindex="0">{still}</div>'
    return nbformat.v4.new_output("display_data", {"text/html": shown})


def live(states: dict[str, dict], still: str) -> str:
    """The place of explorers, given by name, which `live.js` brings to life; without JavaScript the still remains."""
    for state in states.values():
        check(state)
    source = json.dumps(states).replace("<", r"\u003c")
    return f'<div class="live"><script type="application/json">{source}</script>{still}</div>'


def check(state: dict) -> None:
    """Raise an error unless an explorer can have such a state."""
    config = ModelConfig(attend_cls=state["attend_cls"])
    models = {
        name: [build(numbers, config) for numbers in history["epochs"]] for name, history in state["models"].items()
    }
    explorer = explore({name: epochs[0] for name, epochs in models.items()}, state["strings"], state["views"])
    explorer.set_state({name: state[name] for name in ("weights", "length_scaling", "required", "model_name")})
    if explorer.state_of_page.keys() != state.keys():
        raise ValueError(f"the state of an explorer has {', '.join(explorer.state_of_page)}, not {', '.join(state)}")


def write_pages(sources: Path, folder: Path) -> int:
    """Have Sphinx make pages of sources; a warning is an error. Gives 0, or what Sphinx gives where it fails."""
    with tempfile.TemporaryDirectory() as temporary:
        pages = Path(temporary) / "pages"  # MyST-NB leaves a folder beside it
        flags = ["--quiet", "--fail-on-warning", "--keep-going", "--fresh-env", "-d", f"{temporary}/doctrees"]
        if failed := build_main([*flags, "-b", "html", str(sources), str(pages)]):
            return failed
        for page in pages.rglob("*.html"):
            page.write_text(add_policy(page.read_text()))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pages, folder)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as sources:
        write_sources(Path(sources))
        return write_pages(Path(sources), folder)


if __name__ == "__main__":
    sys.exit(main())
