"""How much a head matters, measured in three ways, and pruning from the least important head on.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3 and 4.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, gelu

from toy_transformer.data import Batch
from toy_transformer.experiments import evaluate
from toy_transformer.horizon import horizon
from toy_transformer.model import Transformer, from_counts
from toy_transformer.parallel import each
from toy_transformer.pruning import essence_of, without_heads
from toy_transformer.training import one_thread

Constants = Mapping[int, float]
"""For each head, the result that it has when it is silent."""

Importance = Callable[[Transformer, Batch, Constants, Sequence[int]], Float[Tensor, "head"]]
"""Of a model, measured on strings, while some heads are silent. The importance of those means nothing."""


class CurvePoint(NamedTuple):
    """What a pruned model is worth: its errors on the test strings, and its horizon."""

    num_heads: int
    errors: int
    horizon: int


class Pruned(NamedTuple):
    """A model with some heads left: `heads` are their numbers in the model that was pruned."""

    heads: tuple[int, ...]
    model: Transformer


def results_of(model: Transformer, strings: Batch) -> Float[Tensor, "string head"]:
    """Give the result of each head for each string, in float64."""
    with torch.no_grad():
        trace = model(*from_counts(strings.counts, model.embedding.weight.dtype), num_queries=1)
    return trace.attention_values[:, :, 0, 0].double()


def mean_results(model: Transformer, strings: Batch) -> dict[int, float]:
    """Give what each head's result is on average: what stands in for it when it is silent."""
    return dict(enumerate(results_of(model, strings).mean(dim=0).tolist()))


def gradient_importance(
    model: Transformer, strings: Batch, constants: Constants, silent: Sequence[int] = ()
) -> Float[Tensor, "head"]:
    """The expected absolute gradient of the loss with respect to a mask on the head's result (equation 2).

    The mask goes from 1 towards 0, whatever the constants are.
    """
    results = _silence(results_of(model, strings), constants, silent).requires_grad_()
    (gradients,) = torch.autograd.grad(_losses(model, results, strings).sum(), results)
    return (results * gradients).abs().mean(dim=0).detach()


def ablation_importance(
    model: Transformer, strings: Batch, constants: Constants, silent: Sequence[int] = ()
) -> Float[Tensor, "head"]:
    """How much the mean loss grows when the head is silent."""
    results = _silence(results_of(model, strings), constants, silent)
    loss = _losses(model, results, strings).mean()
    losses = [_losses(model, _silence(results, constants, [head]), strings).mean() for head in constants]
    return torch.stack(losses) - loss


def horizon_importance(
    model: Transformer, strings: Batch, constants: Constants, silent: Sequence[int] = ()
) -> Float[Tensor, "head"]:
    """How short the horizon gets when the head is silent: minus the horizon that is left."""
    gone = {head: constants[head] for head in silent}
    lengths = [
        0 if head in gone else horizon(without_heads(model, gone | {head: constants[head]})) for head in constants
    ]
    return -torch.tensor(lengths, dtype=torch.float64)


def _silence(
    results: Float[Tensor, "string head"], constants: Constants, silent: Sequence[int]
) -> Float[Tensor, "string head"]:
    results = results.clone()
    for head in silent:
        results[:, head] = constants[head]
    return results


def _losses(model: Transformer, results: Float[Tensor, "string head"], strings: Batch) -> Float[Tensor, "string"]:
    """The loss for each string, from the heads' results on."""
    essence = essence_of(model)
    first_values, seen, written = map(torch.from_numpy, (essence.first_values, essence.seen, essence.written))
    read = seen[:, 0] + (results - first_values) @ seen[:, 1:].T
    logits = read[:, 0] + gelu(read[:, 1:]) @ written
    return binary_cross_entropy_with_logits(logits, strings.labels.double(), reduction="none")


ORDERS = {"gradient": gradient_importance, "ablation": ablation_importance, "horizon": horizon_importance}


def random_order(num_heads: int, seed: int) -> list[int]:
    """The yardstick: an order that knows nothing of the model."""
    return torch.randperm(num_heads, generator=torch.Generator().manual_seed(seed)).tolist()


@one_thread()
def prune(
    model: Transformer, strings: Batch, importance: Importance | Sequence[int], constants: Constants | None = None
) -> list[Pruned]:
    """Silence one head after another, the least important first, until one is left; the first step has all heads.

    Importance is measured anew after each; a sequence of head numbers is an order that is fixed beforehand. The
    results of silent heads are constants, their means over the strings if nothing else is given.
    """
    constants = constants or mean_results(model, strings)
    heads, silent = list(constants), []
    steps = [Pruned(tuple(heads), without_heads(model, {}))]
    while len(heads) > 1:
        if callable(importance):
            measured = importance(model, strings, constants, silent)
            least = min(heads, key=lambda head: measured[head].item())
        else:
            least = next(head for head in importance if head in heads)
        heads.remove(least)
        silent.append(least)
        steps.append(Pruned(tuple(heads), without_heads(model, {head: constants[head] for head in silent})))
    return steps


def prune_each(
    models: Sequence[Transformer], strings: Batch, importance: Importance, executor: Executor | None = None
) -> list[list[Pruned]]:
    """Prune several models, as `prune` does each; an executor is used as by `experiments.sweep`."""
    tasks = {f"pruning of model {i}": (model, strings, importance) for i, model in enumerate(models)}
    orders = dict(each(_order, tasks, executor))
    return [prune(model, strings, orders[label]) for label, model in zip(tasks, models, strict=True)]


def _order(model: Transformer, strings: Batch, importance: Importance) -> list[int]:
    steps = [set(step.heads) for step in prune(model, strings, importance)]
    return [(before - after).pop() for before, after in zip(steps, steps[1:], strict=False)]


def curve(steps: Sequence[Pruned], test_strings: Batch) -> list[CurvePoint]:
    """Measure the models of a pruning, one after another."""
    return [CurvePoint(len(step.heads), *worth(step.model, test_strings)) for step in steps]


@one_thread()
def worth(model: Transformer, test_strings: Batch) -> tuple[int, int]:
    """Give the errors on the test strings, and the horizon, which proves that there are none among shorter ones."""
    length = horizon(model)
    is_proved = length >= test_strings.counts.sum(dim=1).max()
    return 0 if is_proved else len(evaluate(model, test_strings)["wrong_strings"]), length


def fewest_heads(points: Sequence[CurvePoint], keep_horizon: bool = False) -> int:
    """Say how far pruning can go until it first costs a test string, or makes the horizon shorter than at its start."""
    good = [p.errors == 0 and (p.horizon >= points[0].horizon or not keep_horizon) for p in points]
    return points[(good + [False]).index(False) - 1].num_heads
