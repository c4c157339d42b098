"""A plugin for pytest that adds to nbval what it leaves out: pictures, solutions, and failures that can be read.

nbval runs each notebook in a kernel of its own and compares what a cell prints with what is committed. Here a cell has
the number that JupyterLab shows, its pictures are compared as well, and after the last cell each solution of an
exercise is handed in.
"""

import base64
import copy
import difflib
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import IPyNbCell, IPyNbFile
from PIL import Image, ImageChops, ImageFilter

SOLUTION = re.compile(r"<summary>Solution</summary>\s*```python\n(.*?)```", re.DOTALL)

STATE = "application/vnd.toy-transformer.explorer"

NOTHING = {"text/html": ""}
"""Stands first among folded outputs, for JupyterLab shows the beginning of the first one."""

BLUR = 4
"""Pixels around each pixel of which the mean is compared."""

LEVELS = 25
"""Of 255, by which these means may differ. Weights that differ in their last digits, as they do from one kind of
processor to the next, move a line or a letter by a part of a pixel, which makes up to 16; to another colour or place
it is farther."""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(parent):
    files = yield
    return [Notebook.from_parent(parent, path=file.path) if isinstance(file, IPyNbFile) else file for file in files]


class Notebook(IPyNbFile):
    def collect(self) -> Iterator[pytest.Item]:
        for cell in super().collect():
            yield self.cell("Cell", cell.cell_num + 1, cell.cell, cell.options)  # JupyterLab counts from 1
        for number, exercise in solved_exercises(self.nb):
            yield self.cell("Solution", number, exercise, defaultdict(bool, check=True))

    def cell(self, kind: str, number: int, cell: nbformat.NotebookNode, options: dict) -> pytest.Item:
        return Cell.from_parent(self, name=f"{kind} {number}", cell_num=number, cell=cell, options=options)


def solved_exercises(notebook: nbformat.NotebookNode) -> Iterator[tuple[int, nbformat.NotebookNode]]:
    """Give each exercise, by its number, with the solution that stands above it handed in and its check content."""
    solution, number = None, 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            solution = SOLUTION.search(cell.source)
            continue
        number += 1
        if solution:
            solved = copy.deepcopy(cell)
            solved.source = cell.source.replace("answer = None", solution[1].strip())
            solved.outputs = [nbformat.v4.new_output("stream", text="Right!\n")]
            yield number, solved
            solution = None


class Cell(IPyNbCell):
    def compare_outputs(self, test, ref, skip_compare=None) -> bool:
        ref = [output for output in ref if output.get("data") != NOTHING]
        now, committed = _states(test), _states(ref)
        if not super().compare_outputs(test, ref, skip_compare) or not self.compare_pictures(test, ref):
            return False
        if differs := difference_of_states(committed, now):
            self.comparison_traceback = [f"{STATE}: {differs}"]
        return not differs

    def compare_pictures(self, test, ref) -> bool:
        """Compare the PNGs of both; where they differ, write them down and say where."""
        now, committed = _pngs(test), _pngs(ref)
        if len(now) != len(committed):
            self.comparison_traceback = [f"{len(committed)} pictures are committed, {len(now)} are drawn now"]
            return False
        for old, new in zip(committed, now, strict=True):
            if difference := difference_of_pictures(old, new):
                self.comparison_traceback = [f"image/png: {difference}", *self.write_pictures(old, new)]
                return False
        return True

    def write_pictures(self, old: bytes, new: bytes) -> Iterator[str]:
        folder = Path(tempfile.mkdtemp(prefix="pictures-that-differ-"))
        for kind, png in {"committed": old, "drawn now": new}.items():
            path = folder / f"{self.parent.path.stem}, cell {self.cell_num}, {kind}.png"
            path.write_bytes(png)
            yield f"  {path}"

    def format_output_compare(self, key, left, right) -> None:
        lines = difflib.ndiff(str(left).splitlines(), str(right).splitlines())
        self.comparison_traceback += [f"{key}, committed (-) and now (+):", *(f"  {line.rstrip()}" for line in lines)]


def _states(outputs: list) -> list[str]:
    """Take the states of explorers out of outputs, for nbval would want the same last digits."""
    return [output["data"].pop(STATE) for output in outputs if STATE in output.get("data", {})]


def difference_of_states(old: list[str], new: list[str]) -> str | None:
    """Say how two lists of states differ, where numbers may do so by 0.001; None if they do not."""
    (frame, numbers), (other_frame, other_numbers) = map(_frame_and_numbers, (old, new))
    if frame != other_frame:
        return f"{frame} is committed, and now it is {other_frame}, where None stands for a number"
    far = [pair for pair in zip(numbers, other_numbers, strict=True) if abs(pair[0] - pair[1]) > 1e-3]
    return f"{far[0][0]} is committed, and now it is {far[0][1]}" if far else None


def _frame_and_numbers(states: list[str]) -> tuple[list, list[float]]:
    numbers: list[float] = []
    return [json.loads(state, parse_float=lambda text: numbers.append(float(text))) for state in states], numbers


def _pngs(outputs: list) -> list[bytes]:
    return [base64.b64decode(o["data"]["image/png"]) for o in outputs if "image/png" in o.get("data", {})]


def difference_of_pictures(old: bytes, new: bytes) -> str | None:
    """Say how two PNGs differ to the eye; None if they do not."""
    if old == new:
        return None
    before, after = (Image.open(BytesIO(png)).convert("RGB") for png in (old, new))
    if max(abs(x - y) for x, y in zip(before.size, after.size, strict=True)) > 1:
        return f"{before.width} × {before.height} pixels are committed, {after.width} × {after.height} are drawn now"
    common = (0, 0, *map(min, before.size, after.size))
    before, after = (picture.crop(common).filter(ImageFilter.BoxBlur(BLUR)) for picture in (before, after))
    levels = max(most for _, most in ImageChops.difference(before, after).getextrema())
    return f"blurred, the pictures differ by up to {levels} of 255 levels" if levels > LEVELS else None
