"""What a person types: `make lab`, and what the README says about it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from servers import wait_for_server

ROOT = Path(__file__).parent.parent


@pytest.fixture
def lab(tmp_path):
    """JupyterLab as `make lab` starts it without a display; gives its description and what it prints."""
    env = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    env |= {name: str(tmp_path / name) for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    env["JUPYTER_RUNTIME_DIR"] = str(tmp_path)
    # This interpreter's environment is taken as installed.
    command = ["make", "lab", f"VENV={sys.prefix}", f"--old-file={sys.prefix}/installed", "LAB_FLAGS=--port=0"]
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=stream, stderr=stream, start_new_session=True)
        try:
            yield wait_for_server(process, tmp_path, log), log
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=30)


FIRST = "01-high-level-walkthrough.ipynb"


def test_make_lab_opens_the_first_notebook(lab):
    server, log = lab
    with urllib.request.urlopen(f"{server['url']}api/contents?token={server['token']}", timeout=30) as response:
        names = {entry["name"] for entry in json.load(response)["content"]}
    assert names >= {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}

    assert re.search(
        rf"http://127\.0\.0\.1:{server['port']}/lab/tree/{FIRST}\?token={server['token']}", log.read_text()
    )
    assert server["hostname"] == "127.0.0.1" and len(server["token"]) >= 40
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{server['url']}api/contents", timeout=30)


def test_a_readers_own_notebooks_are_left_alone(tmp_path):
    """By git, by ruff and by pytest."""
    assert subprocess.run(["git", "check-ignore", "-q", "notebooks/mine/scratch.ipynb"], cwd=ROOT).returncode == 0
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    mine = tmp_path / "notebooks" / "mine"
    mine.mkdir(parents=True)
    code = {"cell_type": "code", "source": "import os, os", "outputs": [], "execution_count": None, "metadata": {}}
    (mine / "scratch.ipynb").write_text(
        json.dumps({"cells": [code], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    commands = {
        "ruff": ["check", "--no-cache"],
        "pytest": ["--collect-only", "--disable-plugin-autoload", "-p", "nbval"],
    }
    for module, arguments in commands.items():
        run = subprocess.run([sys.executable, "-m", module, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert "scratch" not in run.stdout and run.returncode == {"ruff": 0, "pytest": 5}[module], (
            run.stdout + run.stderr
        )


def test_readme_names_every_notebook_and_source_file():
    readme = (ROOT / "README.md").read_text()
    sources = [
        path for path in (ROOT / "src" / "toy_transformer").iterdir() if path.is_file() and path.stem != "__init__"
    ]
    paths = [*(ROOT / "notebooks").glob("*.ipynb"), *sources]
    assert len(paths) > 10
    assert [path.name for path in paths if f"`{path.name}`" not in readme and f"/{path.name})" not in readme] == []
