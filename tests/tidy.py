"""A plugin for pytest: a run sees no settings of the person who runs it, and leaves nothing on the disk."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# The first process makes the folder and removes it; the workers of pytest-xdist and all kernels inherit it.
ELSEWHERE = "TOY_TRANSFORMER_TESTS"
IS_FIRST = ELSEWHERE not in os.environ
if IS_FIRST:
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

# Tensors this small take longer with more threads, above all where two workers share two cores.
os.environ["OMP_NUM_THREADS"] = "1"


def _files() -> set[Path]:
    """All files of the project, but not those of the environment, of git, or (outside `make`) compiled ones."""
    skipped = {".venv", ".git"} | (set() if sys.dont_write_bytecode else {"__pycache__"})
    found = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = set(folders) - skipped  # not entered
        found |= {Path(folder, name) for name in [*folders, *names]}
    return found


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.files_before = _files()


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    if IS_FIRST:
        shutil.rmtree(os.environ[ELSEWHERE])
    left = sorted(str(path) for path in _files() - session.config.files_before)
    if left:
        session.config.get_terminal_writer().line(f"\nThe tests left files behind: {left}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
