"""The picture files of the project: `make figures` writes each into `figures/` by one function of its name."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from toy_transformer import experiments, views


def walkthrough() -> Figure:
    """Both heads of the walkthrough's model at work on "baac", and the way of CLS to its answer."""
    model = experiments.run("walkthrough")[0].model
    axes = plt.figure(figsize=(12, 4.6)).subplot_mosaic([["head 0", "path"], ["head 1", "path"]])
    views.draw_queries_and_keys(model, "baac", [axes["head 0"], axes["head 1"]])
    views.draw_cls_paths(model, ["aac", "baac"], axes["path"])
    return axes["path"].figure


FIGURES = {"walkthrough.png": walkthrough}


def write(folder: Path) -> None:
    """Write every figure into a folder that exists."""
    with plt.style.context("toy_transformer.style"):
        for name, draw in FIGURES.items():
            figure = draw()
            figure.savefig(folder / name)
            plt.close(figure)
            print(f"wrote {folder / name}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
