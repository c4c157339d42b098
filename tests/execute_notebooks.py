"""Runs notebooks from fresh kernels and saves them as they are committed: `make notebooks`.

A saved notebook keeps no widget models, for they mean nothing without their kernel, and no traces of the
machine or the moment, progress bars included; pictures and printed numbers stay.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbval_cells import NOTHING

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in its folder and clean it. Raises `CellExecutionError` where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=300,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
    )
    client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress_bar(output)]
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET_VIEW, None)
            if is_folded(cell):
                cell.outputs.insert(0, nbformat.v4.new_output("display_data", NOTHING))
    return notebook


def is_folded(cell: nbformat.NotebookNode) -> bool:
    return cell.metadata.get("jupyter", {}).get("outputs_hidden", False)


def _is_progress_bar(output: nbformat.NotebookNode) -> bool:
    """A widget that has no picture to leave behind."""
    data = output.get("data", {})
    return WIDGET_VIEW in data and "image/png" not in data


def rewrite(path: Path) -> None:
    nbformat.write(execute(path), path)
    print(f"executed {path}")


if __name__ == "__main__":
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(rewrite, map(Path, sys.argv[1:])))
