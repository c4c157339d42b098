"""The committed notebooks: their form, and that nbval really sees when something is off.

nbval itself runs every notebook, compares all outputs and hands in the solutions: see `nbval_cells.py`.
"""

import ast
import base64
import builtins
import dis
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import nbformat
import pytest
from execute_notebooks import WIDGET_VIEW, is_folded
from matplotlib.axes import Axes
from nbval_cells import NOTHING, difference_of_pictures, difference_of_states, solved_exercises

from toy_transformer.pictures import Picture, plots, views

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FRAME = [
    "# ",
    "**You will see**",
    "**You need**",
    "## Try it",
    "## In real Transformers",
    "## What you have learnt",
    "## Further reading",
]
MOST_WORDS, MOST_WORDS_IN_ALL = 2_000, 13_500


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


@pytest.fixture
def notebook(path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def _code(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _outputs(notebook) -> list:
    return [output for cell in _code(notebook) for output in cell.outputs]


def _is_ignored(cell) -> bool:
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def test_notebooks_were_found():
    assert len(NOTEBOOKS) >= 3


def test_executed_in_order_from_a_fresh_kernel(notebook):
    cells = _code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


def test_outputs_need_no_kernel(notebook):
    """No errors, no warnings, no widget models; a picture always comes with words."""
    assert "widgets" not in notebook.metadata
    outputs = _outputs(notebook)
    assert outputs
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr"
        data = output.get("data", {})
        assert WIDGET_VIEW not in data
        if "image/png" in data:
            assert len(data["text/plain"]) > 40
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_only_chaotic_numbers_are_left_out_of_the_comparison(path, notebook):
    """Cells whose output nbval is told to ignore: those that sweep, and those that show what a sweep gave."""
    ignored = [cell.source for cell in _code(notebook) if _is_ignored(cell)]
    if not path.name.startswith(("06", "07", "08")):
        assert ignored == []
    assert all(re.search(r"sweep|rows|table\.loc|shares|prunings|curves", source) for source in ignored)
    compared = [cell for cell in _code(notebook) if cell.outputs and cell.source not in ignored]
    assert len(compared) > len(ignored)


def test_frame(notebook):
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    positions = [prose.index(part) for part in FRAME]
    assert positions == sorted(positions)
    assert "predict" in prose.lower()
    assert all(cell.source.strip() for cell in notebook.cells)
    assert len(notebook.cells) - len(_code(notebook)) >= len(_code(notebook))
    assert sorted(len(cell.source.splitlines()) for cell in _code(notebook))[-2] <= 8


def _prose(notebook) -> str:
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.sub("```.*?```", "", prose, flags=re.DOTALL)


def _words(notebook) -> int:
    return len(re.findall(r"[^\W\d_]{2,}", _prose(notebook)))


def test_as_short_as_can_be():
    words = {path.stem: _words(nbformat.read(path, as_version=4)) for path in NOTEBOOKS}
    assert max(words.values()) <= MOST_WORDS and sum(words.values()) <= MOST_WORDS_IN_ALL, words


def test_what_is_to_be_predicted_is_folded(notebook):
    """In JupyterLab, without its beginning, and, by a tag, on pages; the outputs of other cells are not."""
    asked, question = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            question = cell.source
        elif cell.outputs:
            is_live = re.search(r"explore\(|SideBySide\(|LivePicture\(", cell.source)
            assert is_folded(cell) == ("hide-output" in cell.metadata.get("tags", []))
            assert is_folded(cell) == (cell.outputs[0].get("data") == NOTHING)
            assert not is_folded(cell) or "**Predict" in "".join(asked) + question, cell.source
            assert is_folded(cell) or is_live or not re.search(r"\*\*Predict[^.?]*[.?]$", question), cell.source
            asked, question = [question] * bool(is_live), ""


def _free_and_bound(code: types.CodeType) -> tuple[set[str], set[str]]:
    """The names that a cell takes from others, and those that it makes."""
    free, bound = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            bound.add(step.argval)
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
            free.add(step.argval)
        elif isinstance(step.argval, types.CodeType):
            free |= _free_and_bound(step.argval)[0] - bound
    return free, bound


def test_each_cell_can_be_run_again(notebook):
    """After all have been run: what it takes from another cell has been made by that one alone."""
    names = [_free_and_bound(compile(cell.source, "cell", "exec")) for cell in _code(notebook)]
    for free, _ in names:
        for name in free - {"answer", *dir(builtins), "display"}:
            assert sum(name in bound for _, bound in names) == 1, name


def test_notebooks_define_nothing(notebook):
    for cell in _code(notebook):
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not any(isinstance(node, definitions) for node in ast.walk(ast.parse(cell.source)))


def test_links_lead_somewhere(path, notebook):
    links = re.findall(r"\]\(([^)]+)\)", _prose(notebook))
    assert sum(bool(re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[\w./-]*)?", link)) for link in links) >= 1
    for link in links:
        name, _, heading = link.partition("#")
        if not link.startswith("https://"):
            assert not name or (path.parent / name).exists(), link
            target = nbformat.read(path.parent / name, as_version=4) if name else notebook
            assert not heading or any(f"## {heading}\n" in cell.source for cell in target.cells), link


def test_numbered_neighbours_link_to_each_other():
    for left, right in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f"]({right.name})" in nbformat.read(left, as_version=4).cells[-1].source
        assert f"]({left.name})" in nbformat.read(right, as_version=4).cells[-1].source


def test_exercises_are_left_open(notebook):
    """nbval hands in the solutions after the last cell; what is committed has none."""
    exercises = [_code(notebook)[number - 1] for number, _ in solved_exercises(notebook)]
    assert len(exercises) >= 3
    for cell in exercises:
        assert cell.source.startswith("answer = None\n")
        assert cell.outputs[0].text.startswith("Not answered yet")


# ---------------------------------------------------------------- spoilt on purpose


@pytest.fixture
def project(package, tmp_path) -> Path:
    """A copy of what nbval needs, with an empty folder of notebooks."""
    for name in ("conftest.py", "pyproject.toml", "tests/tidy.py", "tests/nbval_cells.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(package, tmp_path / "src")
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def _replace(project: Path, module: str, old: str, new: str) -> None:
    path = project / "src" / "toy_transformer" / module
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


PLUGINS = ["--disable-plugin-autoload", "-p", "nbval"]


def _nbval(project: Path) -> str:
    """Run nbval, which is to fail, in the project; give what it prints."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--color=no", *PLUGINS, "notebooks"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src"), "TMPDIR": str(project)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    return run.stdout


LOADING = "model.load_state_dict(self.weights[epoch])"
SPOILS = {
    "a weight off by 0.01": (
        "training.py",
        LOADING,
        f"{LOADING}\n        with torch.no_grad():\n            model.embedding.weight[2, 0] += 0.01",
    ),
    "a softmax scaled by 1.01": ("model.py", "scores.softmax(dim=-1)", "(1.01 * scores).softmax(dim=-1)"),
}


RED = {"01": 13, "02": 3, "03": 5, "04": 4, "05": 2, "06": 6, "07": 3, "08": 6}
"""The cells, of those that are compared, of which the last at the latest notices a weight that is off."""


QUICK = ("02",)


@pytest.mark.parametrize(
    ("spoil", "numbers", "more"),
    [
        ("a weight off by 0.01", QUICK, 0),
        pytest.param("a weight off by 0.01", RED, 0, marks=pytest.mark.weekly),
        pytest.param("a softmax scaled by 1.01", RED, 11, marks=pytest.mark.weekly),
    ],
    ids=["a weight, one notebook", "a weight", "a softmax"],
)
def test_notebooks_go_red(project, spoil, numbers, more):
    paths = [path for path in NOTEBOOKS if path.name.startswith(tuple(numbers))]
    for path in paths:
        _begin(project, path.name, RED[path.name[:2]] + more)
    _replace(project, *SPOILS[spoil])
    printed = _nbval(project)
    for path in paths:
        assert f"PASSED notebooks/{path.name}::Cell 1\n" in printed
        assert f"FAILED notebooks/{path.name}::Cell " in printed
    assert not re.search(r"\b(Import|ModuleNotFound|Attribute|FileNotFound|Type)Error\b", printed)
    assert more or "NameError" not in printed  # farther on, one follows where a cell is left out


def _begin(project: Path, name: str, num_cells: int) -> Path:
    """Put the first code cells of a notebook that are compared into the project."""
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    notebook.cells = [cell for cell in _code(notebook) if not _is_ignored(cell)][:num_cells]
    nbformat.write(notebook, path := project / "notebooks" / name)
    return path


def _failed(printed: str) -> list[str]:
    return re.findall(r"^FAILED (.*?)(?: -|$)", printed, re.MULTILINE)


FIRST_PICTURE = ("02-self-attention-block.ipynb", 11)


def test_one_digit_and_one_colour_turn_one_cell_red(project):
    path = _begin(project, *FIRST_PICTURE)
    sound, spoilt = "tensor(-1.392)", "tensor(-1.393)"
    source = path.read_text()
    assert source.count(sound) == 1
    path.write_text(source.replace(sound, spoilt))
    _replace(project, "pictures/plots.py", '"a": ("#0072B2"', '"a": ("#0094B2"')
    printed = _nbval(project)
    assert _failed(printed) == [
        f"notebooks/{path.name}::Cell 3",
        f"notebooks/{path.name}::Cell 5",
        f"notebooks/{path.name}::Cell 11",
    ]
    assert printed.count("PASSED notebooks") == 8
    assert f"- {spoilt}" in printed and f"+ {sound}" in printed
    committed, now = sorted(set(re.findall(r"^ *(/.*cell 11.*\.png)$", printed, re.MULTILINE)))
    assert difference_of_pictures(Path(committed).read_bytes(), Path(now).read_bytes()) in printed


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda state: state, None),
        (lambda state: state.replace("0.5,", "0.5004,"), None),
        (lambda state: state.replace("0.5,", "0.51,"), "0.5 is committed, and now it is 0.51"),
        (lambda state: state.replace("aac", "aab"), "aab"),
    ],
)
def test_states_of_explorers_are_compared_but_for_last_digits(change, difference):
    state = '{"seed 5": {"weights": {"a": [0.5, 2.0]}, "strings": ["aac"]}}'
    found = difference_of_states([state], [change(state)])
    assert found is None if difference is None else difference in found


def _swap_labels(monkeypatch):
    points_below = plots._points_below
    monkeypatch.setattr(plots, "_points_below", lambda ax, xs, names, **kw: points_below(ax, xs, names[::-1], **kw))


def _move_a_label(monkeypatch):
    text = Axes.text
    monkeypatch.setattr(Axes, "text", lambda ax, x, y, *args, **kw: text(ax, x, y + 0.02, *args, **kw))


@pytest.mark.parametrize(
    ("spoil", "is_seen"),
    [
        (lambda monkeypatch: None, False),
        (lambda monkeypatch: monkeypatch.setitem(plots.TOKEN_STYLES, "a", ("#0094B2", "o")), True),
        (lambda monkeypatch: monkeypatch.setattr(plots, "HEAD_COLORS", ("#AA4477", "#806000")), True),
        (_swap_labels, True),
        (_move_a_label, True),
    ],
    ids=["sound", "the colour of a", "the colour of a head", "labels swapped", "labels moved"],
)
def test_what_is_seen_of_a_picture(walkthrough, monkeypatch, spoil, is_seen):
    """None of these changes a word or a number."""
    name, number = FIRST_PICTURE
    cell = _code(nbformat.read(ROOT / "notebooks" / name, as_version=4))[number - 1]
    spoil(monkeypatch)
    picture = Picture(views.draw_queries_and_keys(walkthrough.model, "baac"))
    assert picture.words == cell.outputs[0].data["text/plain"]
    committed = base64.b64decode(cell.outputs[0].data["image/png"])
    assert bool(difference_of_pictures(committed, picture.png)) == is_seen
