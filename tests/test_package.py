"""What `import toy_transformer` gives, and what it does not load."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

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


def _public_functions() -> Iterator[tuple[str, Callable, str]]:
    """The name of each function and method, itself, and what is said about it."""
    for info in pkgutil.walk_packages(toy_transformer.__path__, "toy_transformer."):
        module = importlib.import_module(info.name)
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            if inspect.isfunction(thing):
                yield name, thing, str(thing.__doc__)
            methods = inspect.getmembers_static(thing, inspect.isfunction) if inspect.isclass(thing) else []
            for method, function in methods:
                is_public = not method.startswith("_") or method == "__init__" and _is_configuration(name)
                if is_public and function.__module__ == info.name:
                    yield f"{name}.{method}", function, f"{thing.__doc__} {function.__doc__}"


def _is_configuration(class_name: str) -> bool:
    return class_name.endswith(("Config", "Strings"))


EVERYWHERE = ("self", "ax", "axes", "dtype")
"""`ax` and `axes` are explained where pictures begin."""


def test_every_parameter_of_a_public_function_is_documented():
    """By its name, or by its type where that is a class of ours."""
    functions, silent = [*_public_functions()], []
    for name, function, text in functions:
        for parameter in inspect.signature(function).parameters.values():
            says_itself = parameter.name in EVERYWHERE or "toy_transformer" in str(parameter.annotation)
            words = parameter.name.removesuffix("s").replace("_", "[_ ]")
            if not says_itself and not re.search(rf"\b{words}", text):
                silent.append(f"{name}: {parameter.name}")
    assert len(functions) > 100
    assert silent == []
