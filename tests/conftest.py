"""What several tests share: the published facts, the trained models, and an eye on what is left on the disk."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Tests and the kernels they start see no settings of the person who runs them, and leave none. The first
# process makes the folder and removes it; the workers of pytest-xdist inherit it.
ELSEWHERE = "TOY_TRANSFORMER_TESTS"
if ELSEWHERE not in os.environ:
    os.environ[ELSEWHERE] = tempfile.mkdtemp(prefix="toy-transformer-tests-")
for _name in (
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "HYPOTHESIS",
    "DASK_CONFIG",
    "DASK_TEMPORARY_DIRECTORY",
):
    os.environ[_name] = os.path.join(os.environ[ELSEWHERE], _name)
os.environ["MPLBACKEND"] = "agg"

import matplotlib.pyplot as plt  # noqa: E402
import pytest  # noqa: E402
from browser import browser  # noqa: E402, F401
from hypothesis import settings  # noqa: E402
from hypothesis.configuration import set_hypothesis_home_dir  # noqa: E402

from toy_transformer import experiments  # noqa: E402

ROOT = Path(__file__).parent.parent

set_hypothesis_home_dir(os.environ["HYPOTHESIS"])
settings.register_profile("no files, no clock", database=None, deadline=None, derandomize=True)
settings.load_profile("no files, no clock")


@pytest.fixture(scope="session")
def published() -> dict:
    return json.loads((ROOT / "tests" / "published.json").read_text())


@pytest.fixture(scope="session")
def walkthrough() -> experiments.Run:
    return experiments.run("walkthrough")[0]


@pytest.fixture(scope="session")
def generalization_errors() -> experiments.Run:
    return experiments.run("generalization_errors")[0]


@pytest.fixture(autouse=True)
def style():
    with plt.style.context("toy_transformer.style"):
        yield
    plt.close("all")


def _files() -> set[Path]:
    """All files of the project, but not those of the environment, of git, or (outside `make`) compiled ones."""
    skipped = {".venv", ".git"} | (set() if sys.dont_write_bytecode else {"__pycache__"})
    return {path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)}


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.files_before = _files()


def pytest_sessionfinish(session):
    """A run of the tests, and so of the notebooks, leaves nothing on the disk."""
    if hasattr(session.config, "workerinput"):
        return
    shutil.rmtree(os.environ[ELSEWHERE])
    left = sorted(str(path) for path in _files() - session.config.files_before)
    if left:
        session.config.get_terminal_writer().line(f"\nThe tests left files behind: {left}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
