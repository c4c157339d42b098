"""Which heads matter: three measures, each against what it means, and pruning by them."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer import experiments
from toy_transformer.data import Batch, concatenate
from toy_transformer.head_importance import (
    ablation_importance,
    gradient_importance,
    horizon_importance,
    prune,
    results_of,
)
from toy_transformer.horizon import horizon
from toy_transformer.model import Transformer, from_counts
from toy_transformer.pruning import without_heads


@pytest.fixture(scope="module")
def models() -> list[Transformer]:
    """Two of the eight models with sixteen heads."""
    return [run.model for run in experiments.run("increased_num_attention_heads")[:2]]


@pytest.fixture(scope="module")
def strings() -> Batch:
    return concatenate(next(experiments.VALIDATION_DATA.epochs()))


def losses(model: Transformer, strings: Batch) -> torch.Tensor:
    with torch.no_grad():
        logits = model.double()(*from_counts(strings.counts, torch.float64)).output_logits
    return binary_cross_entropy_with_logits(logits, strings.labels.double(), reduction="none")


def test_gradient_is_that_of_a_mask(models, strings):
    """Against differences: the loss with one head's result made a little larger and a little smaller."""
    found = gradient_importance(models[0], strings)
    h = 1e-5
    for head in (0, 7, 15):
        masked = []
        for mask in (1 + h, 1 - h):
            model = without_heads(models[0], {})
            with torch.no_grad():
                first = results_of(models[0], strings)[0, head] - results_of(model, strings)[0, head]
                block = model.self_attention_block
                # In the reduced model a head's result is lower by a constant, which the mask is on as well.
                moved = block.W_O.weight[:, head] * (mask - 1) * first
                block.W_O.weight[:, head] *= mask
            masked.append(losses_from(model, strings, moved))
        expected = ((masked[0] - masked[1]) / (2 * h)).abs().mean()
        assert found[head] == pytest.approx(expected.item(), rel=1e-4)


def losses_from(model: Transformer, strings: Batch, moved: torch.Tensor) -> torch.Tensor:
    """Losses with CLS moved after attention, from the parts of a trace."""
    trace = model(*from_counts(strings.counts, torch.float64))
    block = model.self_attention_block
    after = trace.cls_path[:, 1] + moved
    hidden = torch.nn.functional.gelu(after @ block.W_in.weight.T)
    logits = (after + hidden @ block.W_out.weight.T) @ model.classifier.weight[0]
    return binary_cross_entropy_with_logits(logits, strings.labels.double(), reduction="none")


def test_ablation_is_the_loss_of_the_model_without_the_head(models, strings):
    model, found = models[1], ablation_importance(models[1], strings)
    means = results_of(model, strings).mean(dim=0).tolist()
    for head in (0, 5, 15):
        without = losses(without_heads(model, {head: means[head]}), strings).mean()
        assert found[head].item() == pytest.approx((without - losses(model, strings).mean()).item(), abs=1e-8)


def test_horizon_importance_and_that_mean_and_zero_differ(models, strings):
    model, found = models[0], horizon_importance(models[0], strings)
    means = results_of(model, strings).mean(dim=0).tolist()
    to_mean = [horizon(without_heads(model, {head: mean})) for head, mean in enumerate(means)]
    to_zero = [horizon(without_heads(model, {head: 0.0})) for head in range(16)]
    assert found.tolist() == [-length for length in to_mean]
    assert to_mean != to_zero


ORDERS = {"gradient": gradient_importance, "ablation": ablation_importance, "horizon": horizon_importance}


@pytest.mark.parametrize("order", [*ORDERS, "random"])
def test_pruning_takes_one_head_after_another(models, strings, order):
    test_strings = concatenate(next(experiments.TEST_DATA.epochs()))
    for model in models:
        fixed = torch.randperm(16, generator=torch.Generator().manual_seed(0)).tolist()
        steps = prune(model, strings, ORDERS.get(order, fixed))
        assert [len(step.heads) for step in steps] == list(range(16, 0, -1))
        assert all(set(few) < set(many) for (few, _), (many, _) in zip(steps[1:], steps, strict=False))
        assert all(step.model.config.num_attention_heads == len(step.heads) for step in steps)
        horizons = [horizon(step.model) for step in steps]
        assert horizons[0] == horizon(model)
        if order in ("ablation", "horizon"):  # fewer heads can be right about longer strings
            assert max(horizons) > 2 * horizons[0]
        if order == "random":
            assert [step.heads for step in steps[1:3]] == [tuple(sorted(fixed[1:])), tuple(sorted(fixed[2:]))]
        # Half of the heads can go by measure, while no test string is lost.
        errors = sum(map(len, [experiments.evaluate(steps[8].model, test_strings)["wrong_strings"]]))
        assert (errors == 0) == (order in ("ablation", "horizon") or (order == "gradient" and model is models[0]))


def test_a_head_that_is_not_there_is_refused(models):
    with pytest.raises(ValueError, match="heads 0 to 15"):
        without_heads(models[0], {16: 0.0})
