"""Models whose numbers a person writes down, or moves by hand."""

import copy

import torch

from toy_transformer.model import Transformer

EXACT = {
    "CLS": [0, 0],
    "a": [1, 0],
    "b": [0, 1],
    "c": [0, 0],
    "W_Q": [[0, 0], [0, 0]],
    "W_K": [[0, 0], [0, 0]],
    "W_V": [[1, 0], [0, 1]],
    "W_O": [[1, 0], [0, 1]],
    "W_in": [[1, 1], [1, -1]],
    "W_out": [[0, 0], [-1, 1]],
    "classifier": [[0, -1]],
}
"""Right about every string in exact arithmetic: with x and y the shares of a and b, its logit is
GELU(x + y) − GELU(x − y) − y, which is 0 where a letter is missing, for GELU(y) − GELU(−y) = y."""


def comparing(model: Transformer, factor: float = 1.0) -> Transformer:
    """Give a copy that compares tokens as they are: W_Q and W_K are a factor times the identity, also after training.

    Raises `ValueError` where they are not square.
    """
    copied = copy.deepcopy(model)
    for name in ("W_Q", "W_K"):
        weight = getattr(copied.self_attention_block, name).weight.requires_grad_(False)
        if weight.shape[0] != weight.shape[1]:
            raise ValueError(f"{name}, of shape {tuple(weight.shape)}: only a square one can be the identity")
        weight.copy_(factor * torch.eye(len(weight)))
    return copied


def scale_query(model: Transformer, head: int, factor: float) -> Transformer:
    """Give a copy of the model whose query in one head of size 1 is multiplied by a factor."""
    scaled = copy.deepcopy(model)
    with torch.no_grad():
        scaled.self_attention_block.W_Q.weight[head] *= factor
    return scaled
