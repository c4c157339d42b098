"""How much a head matters, measured in three ways, and pruning from the least important head on.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3 and 4.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, gelu

from toy_transformer.data import Batch
from toy_transformer.horizon import horizon
from toy_transformer.model import Transformer, from_counts
from toy_transformer.pruning import essence_of, without_heads

Importance = Callable[[Transformer, Batch], Float[Tensor, "head"]]


class Pruned(NamedTuple):
    """A model with some heads left: `heads` are their numbers in the model that was pruned."""

    heads: tuple[int, ...]
    model: Transformer


def results_of(model: Transformer, strings: Batch) -> Float[Tensor, "string head"]:
    """Give the result of each head for each string, in float64."""
    with torch.no_grad():
        trace = model(*from_counts(strings.counts, model.embedding.weight.dtype), num_queries=1)
    return trace.attention_values[:, :, 0, 0].double()


def gradient_importance(model: Transformer, strings: Batch) -> Float[Tensor, "head"]:
    """The expected absolute gradient of the loss with respect to a mask on the head's result (equation 2)."""
    results = results_of(model, strings).requires_grad_()
    (gradients,) = torch.autograd.grad(_losses(model, results, strings).sum(), results)
    return (results * gradients).abs().mean(dim=0).detach()


def ablation_importance(model: Transformer, strings: Batch) -> Float[Tensor, "head"]:
    """How much the mean loss grows where the head's result is its mean."""
    results = results_of(model, strings)
    loss, means = _losses(model, results, strings).mean(), results.mean(dim=0)
    silent = torch.eye(results.shape[1], dtype=torch.bool)
    return torch.stack([_losses(model, torch.where(s, means, results), strings).mean() - loss for s in silent])


def horizon_importance(model: Transformer, strings: Batch) -> Float[Tensor, "head"]:
    """How short the horizon gets where the head's result is its mean: minus the horizon that is left."""
    means = results_of(model, strings).mean(dim=0).tolist()
    return torch.tensor([-float(horizon(without_heads(model, {head: mean}))) for head, mean in enumerate(means)])


def _losses(model: Transformer, results: Float[Tensor, "string head"], strings: Batch) -> Float[Tensor, "string"]:
    """The loss for each string, from the heads' results on."""
    essence = essence_of(model)
    first_values, seen, written = map(torch.from_numpy, (essence.first_values, essence.seen, essence.written))
    read = seen[:, 0] + (results - first_values) @ seen[:, 1:].T
    logits = read[:, 0] + gelu(read[:, 1:]) @ written
    return binary_cross_entropy_with_logits(logits, strings.labels.double(), reduction="none")


def prune(model: Transformer, strings: Batch, importance: Importance | Sequence[int]) -> list[Pruned]:
    """Take away one head after another, the least important first, until one is left.

    A head that goes leaves its mean result over the strings behind. Importance is measured anew after each; a
    sequence of head numbers is an order that is fixed beforehand. The first of the list has all heads.
    """
    heads = list(range(model.config.num_attention_heads))
    means = results_of(model, strings).mean(dim=0).tolist()
    steps = [Pruned(tuple(heads), without_heads(model, {}))]
    while len(heads) > 1:
        if callable(importance):
            least = heads[int(importance(steps[-1].model, strings).argmin())]
        else:
            least = next(head for head in importance if head in heads)
        heads.remove(least)
        gone = {head: mean for head, mean in enumerate(means) if head not in heads}
        steps.append(Pruned(tuple(heads), without_heads(model, gone)))
    return steps
