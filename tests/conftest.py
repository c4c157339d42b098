"""What several tests share: the published facts and the trained models; and shapes are checked."""

import json
import os
import pickle
from pathlib import Path

import matplotlib
from jaxtyping import install_import_hook

MODULES = [
    "data",
    "model",
    "gradients",
    "training",
    "experiments",
    "annotated",
    "bounds",
    "horizon",
    "pruning",
    "head_importance",
    "maps",
    "views",
]
install_import_hook([f"toy_transformer.{name}" for name in MODULES], "beartype.beartype")
matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402
import pytest  # noqa: E402
from browser import browser  # noqa: E402, F401
from filelock import FileLock  # noqa: E402
from hypothesis import settings  # noqa: E402
from hypothesis.configuration import set_hypothesis_home_dir  # noqa: E402
from tidy import ELSEWHERE  # noqa: E402

from toy_transformer import experiments  # noqa: E402
from toy_transformer.parallel import process_pool  # noqa: E402

set_hypothesis_home_dir(os.environ["HYPOTHESIS"])
settings.register_profile("no files, no clock", database=None, deadline=None, derandomize=True)
settings.load_profile("no files, no clock")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def published() -> dict:
    return json.loads((ROOT / "tests" / "published.json").read_text())


@pytest.fixture(scope="session")
def runs() -> dict[str, list[experiments.Run]]:
    """All experiments, trained once in a session, by the worker that comes first."""
    path = Path(os.environ[ELSEWHERE]) / "runs.pickle"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with process_pool() as pool:
                path.write_bytes(pickle.dumps(experiments.run_all(pool)))
        return pickle.loads(path.read_bytes())


@pytest.fixture(scope="session")
def walkthrough(runs) -> experiments.Run:
    return runs["walkthrough"][0]


@pytest.fixture(scope="session")
def generalization_errors(runs) -> experiments.Run:
    return runs["generalization_errors"][0]


@pytest.fixture
def trained_once(runs, monkeypatch) -> None:
    """`experiments.run` gives the models that are there already."""
    monkeypatch.setattr(experiments, "run", runs.__getitem__)


@pytest.fixture(autouse=True)
def style():
    with plt.style.context("toy_transformer.style"):
        yield
    plt.close("all")
