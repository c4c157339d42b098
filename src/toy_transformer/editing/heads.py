"""How much a head matters, and pruning from the least important head on.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?", silence heads one at a time (section 3), and prune by
a gradient (section 4). Pruning is by what silence does to the horizon, here.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from toy_transformer.data import Batch, from_counts
from toy_transformer.editing.reduction import reducible_logit, without_heads
from toy_transformer.evaluation import evaluate
from toy_transformer.model import Transformer
from toy_transformer.proofs.horizon import known_horizon
from toy_transformer.studies.parallel import completed
from toy_transformer.training import one_thread

Constants = Mapping[int, float]
"""For each head, the result that it has when it is silent."""

Importance = Callable[[Transformer, Constants, Sequence[int]], Float[Tensor, "head"]]
"""Of the heads of a model, while some are silent. The importance of those means nothing."""


class CurvePoint(NamedTuple):
    """What a pruned model is worth: its errors on the test strings, and its horizon."""

    num_heads: int
    errors: int
    horizon: int


class Pruning(NamedTuple):
    """The heads of a model in the order in which they went, each with its result from then on; the last one stays.

    `points` says what the model is worth with all heads, and after each step.
    """

    silent: dict[int, float]
    points: list[CurvePoint]

    def down_to(self, num_heads: int) -> dict[int, float]:
        """Give those that are silent when `num_heads` are left. Raises `ValueError` for a number that cannot be."""
        if num_heads not in range(1, self.points[0].num_heads + 1):
            raise ValueError(f"num_heads={num_heads!r}: expected a whole number from 1 to {self.points[0].num_heads}")
        return dict(list(self.silent.items())[: self.points[0].num_heads - num_heads])


def mean_results(model: Transformer, strings: Batch) -> dict[int, float]:
    """Give what each head's result is on average over the strings: what stands in for it when it is silent.

    In float64. Raises `ValueError` as `reduce_exactly` does.
    """
    reducible_logit(model)
    with torch.no_grad():
        trace = model(*from_counts(strings.counts, model.embedding.weight.dtype), num_queries=1)
    return dict(enumerate(trace.means[:, :, 0, 0].double().mean(dim=0).tolist()))


def horizon_importance(model: Transformer, constants: Constants, silent: Sequence[int] = ()) -> Float[Tensor, "head"]:
    """How short the horizon gets when the head is silent, and one of the `constants` its result.

    It is minus the horizon that is left, 0 if none is known. Raises `ValueError` as `reduce_exactly` does.
    """
    gone = {head: constants[head] for head in silent}
    lengths = [
        0 if head in gone else (known_horizon(without_heads(model, gone | {head: constants[head]})) or 0)
        for head in constants
    ]
    return -torch.tensor(lengths, dtype=torch.float64)


def random_importance(model: Transformer, constants: Constants, silent: Sequence[int] = ()) -> Float[Tensor, "head"]:
    """The yardstick: numbers that know of the model its seed, and nothing of constants or silent heads."""
    return torch.rand(len(constants), generator=torch.Generator().manual_seed(model.seed), dtype=torch.float64)


@one_thread()
def prune(model: Transformer, strings: Batch, importance: Importance, test_strings: Batch) -> Pruning:
    """Silence one head after another, the least important first, until one is left.

    Importance is measured anew after each. The results of silent heads are their means over the `strings`. Raises
    `ValueError` as `reduce_exactly` does.
    """
    constants = mean_results(model, strings)
    silent, points = {}, []
    while True:
        left = errors_and_horizon(without_heads(model, silent), test_strings)
        points.append(CurvePoint(len(constants) - len(silent), *left))
        if len(silent) >= len(constants) - 1:
            return Pruning(silent, points)
        measured = importance(model, constants, [*silent])
        least = min((head for head in constants if head not in silent), key=lambda head: measured[head].item())
        silent[least] = constants[least]


def prune_each(
    models: Sequence[Transformer],
    strings: Batch,
    orders: Mapping[str, Importance],
    test_strings: Batch,
    executor: Executor | None = None,
) -> dict[str, list[Pruning]]:
    """Prune several models in several orders, as `prune` does; an executor is used as by `sweeps.sweep`."""
    tasks = {
        f"pruning of model {i} by {name}": (model, strings, importance, test_strings)
        for i, model in enumerate(models)
        for name, importance in orders.items()
    }
    done = dict(tqdm(completed(prune, tasks, executor), total=len(tasks), unit="pruning"))
    return {name: [done[f"pruning of model {i} by {name}"] for i in range(len(models))] for name in orders}


@one_thread()
def errors_and_horizon(model: Transformer, test_strings: Batch) -> tuple[int, int]:
    """Give the errors on the test strings, and the horizon, 0 if none is known.

    A horizon as long as the longest test string proves that there are no errors.
    """
    length = known_horizon(model) or 0
    is_proved = length >= test_strings.counts.sum(dim=1).max()
    return 0 if is_proved else len(evaluate(model, test_strings).wrong_strings), length


def how_far(model: Transformer, test_strings: Batch) -> str:
    """Say "errors" for a model that makes some on the test strings, and else its horizon as `errors_and_horizon` does.

    It is rounded to one digit, in which all machines agree: 5,842 becomes 6,000.
    """
    errors, length = errors_and_horizon(model, test_strings)
    return "errors" if errors else f"{float(f'{length:.1g}'):,.0f}"
