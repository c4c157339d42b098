"""A model as numbers by name, and back; a model in a file, and back."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from toy_transformer.model import METADATA_KEY, ModelConfig, Transformer
from toy_transformer.task import Task


def build(
    numbers: Mapping[str, Sequence], config: ModelConfig = ModelConfig(), dtype: torch.dtype = torch.float32
) -> Transformer:
    """Make a model of numbers by name, as in `EXACT`: an embedding for each token, and the matrices.

    PAD's embedding, which no logit depends on, is 0 unless it is given. Raises `ValueError` for a name that is
    missing or unknown, for a matrix of another shape, and for what is no finite number.
    """
    model = Transformer(config).to(dtype).requires_grad_(False)
    weights = _weights(model)
    if not isinstance(numbers, Mapping) or weights.keys() != numbers.keys() | {"PAD"}:
        found = ", ".join(map(str, numbers)) if isinstance(numbers, Mapping) else repr(numbers)
        raise ValueError(f"found {found}: expected the names {', '.join(sorted(weights))}")
    for name in numbers:
        weights[name].copy_(_read(name, numbers[name], weights[name]))
    return model


def numbers_of(model: Transformer) -> dict[str, list]:
    """Give the numbers of a model by name: those from which `build` makes it again."""
    return {name: weight.tolist() for name, weight in _weights(model).items()}


def _weights(model: Transformer) -> dict[str, torch.Tensor]:
    matrices = {name.split(".")[-2]: weight for name, weight in model.named_parameters()}
    return dict(zip(model.tokenizer.vocabulary, matrices.pop("embedding"), strict=True)) | matrices


def _read(name: str, numbers: Sequence, like: torch.Tensor) -> torch.Tensor:
    try:
        tensor = torch.tensor(numbers, dtype=like.dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name}: {error}") from None
    if tensor.shape != like.shape or not tensor.isfinite().all():
        raise ValueError(f"{name}={numbers}: expected finite numbers of shape {tuple(like.shape)}")
    return tensor


def load(path: str | Path) -> Transformer:
    """Read the model that `Transformer.save` has written to a path, ready to be asked.

    A file is data: nothing of it is executed. Raises `OSError` where it cannot be read, and `ValueError` where it
    is not such a file, or its numbers are not finite or not those that its configuration needs.
    """
    try:
        with safe_open(path, framework="pt") as file:
            described = json.loads(file.metadata()[METADATA_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        task = Task(**described["config"].pop("task"))
        config, seed = ModelConfig(task, **described["config"]), int(described["seed"])
        with torch.device("meta"):  # takes no memory, whatever the sizes
            sizes = {name: weight.shape for name, weight in Transformer(config).state_dict().items()}
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path}: this is no file of a model: {error}") from error
    if {name: tensor.shape for name, tensor in tensors.items()} != sizes:
        raise ValueError(f"{path}: expected tensors of these sizes: {sizes}")
    types = {tensor.dtype for tensor in tensors.values()}
    if types not in ({torch.float32}, {torch.float64}) or not all(x.isfinite().all() for x in tensors.values()):
        raise ValueError(f"{path}: expected finite numbers, all float32 or all float64")
    model = Transformer(config, seed).to(*types)
    model.load_state_dict(tensors)
    return model.eval().requires_grad_(False)
