"""A model as numbers by name, and back."""

from collections.abc import Mapping, Sequence

import torch

from toy_transformer.model import ModelConfig, Transformer


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
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    if tensor.shape != like.shape or not tensor.isfinite().all():
        raise ValueError(f"{name}={numbers}: expected finite numbers of shape {tuple(like.shape)}")
    return tensor
