"""The files of `figures/`: `make figures` writes each by one function of its name.

The picture of the explorer is a photograph of its page in a browser; `tests/photograph.py` takes it.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from toy_transformer import experiments
from toy_transformer.explorer import Explorer, explore
from toy_transformer.pictures import views


def walkthrough() -> Figure:
    """Both heads of the walkthrough's model at work on "baac", and the way of CLS to its answer."""
    model = experiments.run("walkthrough")[0].model
    axes = plt.figure(figsize=(12, 4.6)).subplot_mosaic([["head 0", "path"], ["head 1", "path"]])
    views.draw_queries_and_keys(model, "baac", [axes["head 0"], axes["head 1"]])
    views.draw_cls_paths(model, ["aac", "baac"], axes["path"])
    return axes["path"].figure


def explorer() -> Explorer:
    """The walkthrough's model with all its epochs, to be played with."""
    return explore(experiments.run("walkthrough")[0], ["aac", "baac", "bc"])


FIGURES = {"walkthrough.png": walkthrough}
PAGES = {"explorer.html": explorer}


def write(folder: Path) -> None:
    """Write every figure and page into a folder that exists."""
    with plt.style.context("toy_transformer.pictures.style"):
        for name, draw in FIGURES.items():
            figure = draw()
            figure.savefig(folder / name)
            plt.close(figure)
            print(f"wrote {folder / name}")
    for name, make in PAGES.items():
        make().to_html(folder / name)
        print(f"wrote {folder / name}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
