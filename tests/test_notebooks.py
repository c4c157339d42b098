"""The committed notebooks: their form, their exercises, and that nbval really sees when something is off.

nbval itself runs every notebook and compares all outputs; pyproject.toml makes it part of every test run.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from execute_notebooks import WIDGET_VIEW
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FRAME = [
    "# ",
    "**You will see**",
    "**You need**",
    "## Play",
    "## Try it",
    "## In real Transformers",
    "## What you have learnt",
]
SOLUTION = re.compile(r"<summary>Solution</summary>\s*```python\n(.*?)```", re.DOTALL)


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
    ignored = [cell.source for cell in _code(notebook) if cell.metadata.get("tags")]
    if not path.name.startswith(("04", "06", "08")):
        assert ignored == []
    assert all(re.search("sweep|run_all|shares|lower_magnitude_initializations|curves", source) for source in ignored)
    compared = [cell for cell in _code(notebook) if cell.outputs and cell.source not in ignored]
    assert len(compared) > len(ignored)


def test_frame(notebook):
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    positions = [prose.index(part) for part in FRAME]
    assert positions == sorted(positions)
    assert "predict" in prose.lower()
    assert len(notebook.cells) - len(_code(notebook)) >= len(_code(notebook))
    assert sorted(len(cell.source.splitlines()) for cell in _code(notebook))[-2] <= 8


def test_notebooks_define_nothing(notebook):
    for cell in _code(notebook):
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not any(isinstance(node, definitions) for node in ast.walk(ast.parse(cell.source)))


def test_links_lead_somewhere(path, notebook):
    links = [link for cell in notebook.cells for link in re.findall(r"\]\(([^)#]+)\)", cell.source)]
    assert links
    assert [link for link in links if not link.startswith("http") and not (path.parent / link).exists()] == []


def test_numbered_neighbours_link_to_each_other():
    for left, right in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f"]({right.name})" in nbformat.read(left, as_version=4).cells[-1].source
        assert f"]({left.name})" in nbformat.read(right, as_version=4).cells[-1].source


def test_the_solutions_given_are_right(path, notebook):
    """Each exercise is left open, and with the solution of its `<details>` its check says that it is right."""
    exercises = []
    for prose, code in zip(notebook.cells, notebook.cells[1:], strict=False):
        solution = SOLUTION.search(prose.source)
        if solution:
            assert code.source.startswith("answer = None\n")
            assert code.outputs[0].text.startswith("Not answered yet")
            code.source = code.source.replace("answer = None", solution[1].strip())
            exercises.append(code)
    assert len(exercises) >= 3
    NotebookClient(
        notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": path.parent}}
    ).execute()
    assert [code.outputs[0].text for code in exercises] == ["Right!\n"] * len(exercises)


def _spoil_a_weight(copy: Path) -> None:
    training = copy / "src" / "toy_transformer" / "training.py"
    loading = "model.load_state_dict(self.weights[epoch])"
    source = training.read_text()
    assert source.count(loading) == 1
    spoilt = f"{loading}\n        with torch.no_grad():\n            model.embedding.weight[2, 0] += 0.01"
    training.write_text(source.replace(loading, spoilt))


def _spoil_a_function(copy: Path) -> None:
    model = copy / "src" / "toy_transformer" / "model.py"
    softmax = "scores.softmax(dim=-1)"
    source = model.read_text()
    assert source.count(softmax) == 1
    model.write_text(source.replace(softmax, "(1.01 * scores).softmax(dim=-1)"))


def _spoil_a_number(copy: Path) -> None:
    """Change the last digit of the last output that is a tensor."""
    for path in (copy / "notebooks").glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        tensors = [o.data for o in _outputs(notebook) if o.get("data", {}).get("text/plain", "").startswith("tensor")]
        head, digit, tail = re.match(r"(.*)(\d)(\D*)$", tensors[-1]["text/plain"], re.DOTALL).groups()
        tensors[-1]["text/plain"] = f"{head}{(int(digit) + 1) % 10}{tail}"
        nbformat.write(notebook, path)


@pytest.mark.parametrize("spoil", [_spoil_a_weight, _spoil_a_function, _spoil_a_number])
def test_nbval_goes_red(spoil, tmp_path):
    """With one weight, one function or one printed number changed, every notebook fails; what is sound passes."""
    for folder in ("src", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    spoil(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "-n2", "--dist=loadscope", "-rA", "--color=no", "notebooks"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    for path in NOTEBOOKS:
        verdicts = re.findall(rf"^(PASSED|FAILED) notebooks/{path.name}", run.stdout, re.MULTILINE)
        assert "FAILED" in verdicts and "PASSED" in verdicts
        if spoil is _spoil_a_number:
            assert verdicts.count("FAILED") == 1
