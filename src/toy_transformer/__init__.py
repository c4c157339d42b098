"""A Transformer small enough that every number of it can be seen, dragged and proved right or wrong.

The names of a first hour; each is imported from its module when it is first used.
"""

from importlib import import_module

_HOME = {
    "Task": "task",
    "Tokenizer": "task",
    "ModelConfig": "model",
    "Transformer": "model",
    "load": "weights",
    "train": "training",
    "run": "experiments",
    "sweep": "studies.sweeps",
    "shortest_wrong_string": "proofs.horizon",
    "explore": "explorer",
}
__all__ = [*_HOME]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
