"""What `import toy_transformer` gives, and what it does not load."""

import subprocess
import sys

import pytest

import toy_transformer


def test_the_names_of_a_first_hour():
    assert {name: getattr(toy_transformer, name).__name__ for name in toy_transformer.__all__} == {
        name: name for name in toy_transformer.__all__
    }
    assert set(toy_transformer.__all__) <= set(dir(toy_transformer))
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        toy_transformer.runs  # noqa: B018


def test_the_ground_floor_loads_no_proofs_and_no_pictures():
    printed = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from toy_transformer import run"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    loaded = {line.rsplit("|")[-1].strip().split(".")[0] for line in printed.splitlines()}
    assert "torch" in loaded
    assert not loaded & {"flint", "scipy", "matplotlib", "anywidget", "ipywidgets"}
