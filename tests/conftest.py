"""What several tests share: the published facts and the trained models; and shapes are checked."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

from jaxtyping import install_import_hook

MODULES = [
    "model",
    "_gradients",
    "training",
    "evaluation",
    "experiments",
    "annotated",
    "proofs.bounds",
    "editing.reduction",
    "editing.heads",
    "pictures.maps",
    "pictures.views",
]
install_import_hook([f"toy_transformer.{name}" for name in MODULES], "beartype.beartype")

import pytest  # noqa: E402
from browser import browser  # noqa: E402, F401
from filelock import FileLock  # noqa: E402
from hypothesis import settings  # noqa: E402
from hypothesis.configuration import set_hypothesis_home_dir  # noqa: E402
from tidy import ELSEWHERE  # noqa: E402

set_hypothesis_home_dir(os.environ["HYPOTHESIS"])
settings.register_profile("no files, no clock", database=None, deadline=None, derandomize=True)
settings.load_profile("no files, no clock")

ROOT = Path(__file__).parent.parent
RUNS = "runs.pickle"


@pytest.fixture(scope="session")
def published() -> dict:
    return json.loads((ROOT / "tests" / "published.json").read_text())


@pytest.fixture(scope="session")
def runs() -> dict[str, list["experiments.Run"]]:
    """All experiments, trained once in a session, by the worker that comes first."""
    path = Path(os.environ[ELSEWHERE]) / RUNS
    with FileLock(f"{path}.lock"):
        if not path.exists():
            subprocess.run([sys.executable, ROOT / "tests" / "train.py", path], check=True, stderr=subprocess.DEVNULL)
        return pickle.loads(path.read_bytes())


TAKE_WHAT_IS_TRAINED = """

import pickle

with open({path!r}, "rb") as file:
    TRAINED = pickle.load(file)


def run(name, on_epoch=None, training_config=TrainingConfig(), train=run):
    if training_config != TrainingConfig():
        return train(name, on_epoch, training_config)
    for trained in TRAINED[name]:
        for epoch, losses in enumerate(zip(trained.train_losses, trained.validation_losses), start=1):
            if on_epoch:
                on_epoch(trained.seed, epoch, *losses)
    return TRAINED[name]
"""
TAKE_ALL = """

from toy_transformer.experiments import TRAINED


def run_all(executor=None):
    return TRAINED
"""


@pytest.fixture(scope="session")
def package(runs, tmp_path_factory) -> Path:
    """A folder with a copy of the package, whose experiments take the models that are trained already.

    For kernels that are not there to see whether training works.
    """
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True)
    taking = TAKE_WHAT_IS_TRAINED.format(path=os.path.join(os.environ[ELSEWHERE], RUNS))
    for name, code in {"experiments.py": taking, "studies/sweeps.py": TAKE_ALL}.items():
        with (folder / "toy_transformer" / name).open("a") as file:
            file.write(code)
    return folder


@pytest.fixture(scope="session")
def walkthrough(runs) -> "experiments.Run":
    return runs["walkthrough"][0]


@pytest.fixture(scope="session")
def generalization_errors(runs) -> "experiments.Run":
    return runs["generalization_errors"][0]


@pytest.fixture
def trained_once(runs, monkeypatch) -> None:
    """`experiments.run` gives the models that are there already."""
    monkeypatch.setattr("toy_transformer.experiments.run", runs.__getitem__)


@pytest.fixture(autouse=True)
def style():
    import matplotlib.pyplot as plt  # not where pytest-xdist only hands tests out

    plt.switch_backend("agg")
    with plt.style.context("toy_transformer.pictures.style"):
        yield
    plt.close("all")
