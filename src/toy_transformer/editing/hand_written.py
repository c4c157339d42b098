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


def blend_with_identity(model: Transformer, **shares: float) -> Transformer:
    """Give a copy in which maps are (1 − t) · identity + t · map, for shares t by name, such as `W_Q=0.5`.

    Raises `ValueError` for the name of no square map.
    """
    blended = copy.deepcopy(model).requires_grad_(False)
    for name, share in shares.items():
        weight = getattr(getattr(blended.self_attention_block, name, None), "weight", None)
        if weight is None or weight.dim() != 2 or weight.shape[0] != weight.shape[1]:
            raise ValueError(f"{name}: expected the name of a square map, such as W_Q")
        weight.copy_((1 - share) * torch.eye(len(weight)) + share * weight)
    return blended


def scale_query(model: Transformer, head: int, factor: float) -> Transformer:
    """Give a copy of the model whose query in one head of size 1 is multiplied by a factor."""
    scaled = copy.deepcopy(model)
    with torch.no_grad():
        scaled.self_attention_block.W_Q.weight[head] *= factor
    return scaled
