"""Models with only some of their heads, and what they are worth.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?", silence heads one at a time (section 3).
"""

from collections.abc import Collection

import torch

from toy_transformer.data import Batch, from_counts
from toy_transformer.editing.reduction import reducible_logit, without_heads
from toy_transformer.evaluation import evaluate
from toy_transformer.model import Transformer
from toy_transformer.proofs.horizon import known_horizon
from toy_transformer.training import one_thread


def mean_results(model: Transformer, strings: Batch) -> dict[int, float]:
    """Give what each head's result is on average over the strings: what stands in for it when it is silent.

    In float64. Raises `ValueError` as `reduce_exactly` does.
    """
    reducible_logit(model)
    with torch.no_grad():
        trace = model(*from_counts(strings.counts, model.embedding.weight.dtype), num_queries=1)
    return dict(enumerate(trace.means[:, :, 0, 0].double().mean(dim=0).tolist()))


def keep_heads(model: Transformer, heads: Collection[int], strings: Batch) -> Transformer:
    """Give a model of the least hidden size with some of the heads; the results of all others are their means.

    Those are means over the `strings`. In float64. Raises `ValueError` as `reduce_exactly` does, and for a head that
    the model does not have.
    """
    means = mean_results(model, strings)
    if unknown := set(heads) - set(means):
        raise ValueError(f"heads {sorted(unknown)}: the model has the heads 0 to {len(means) - 1}")
    return without_heads(model, {head: mean for head, mean in means.items() if head not in heads})


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
