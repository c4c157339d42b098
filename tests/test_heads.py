"""Which heads matter: two measures, each against what it means, and pruning by them."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer import evaluation, experiments
from toy_transformer.data import Batch, concatenate, from_counts
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.editing.heads import (
    MEASURES,
    CurvePoint,
    Pruning,
    ablation_importance,
    errors_and_horizon,
    horizon_importance,
    how_far,
    mean_results,
    prune,
    prune_each,
    random_importance,
)
from toy_transformer.editing.reduction import without_heads
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.horizon import horizon
from toy_transformer.weights import build


@pytest.fixture(scope="module")
def models(runs) -> list[Transformer]:
    """Two of the eight models with sixteen heads."""
    return [run.model for run in runs["increased_num_attention_heads"][:2]]


@pytest.fixture(scope="module")
def strings() -> Batch:
    return concatenate(next(experiments.VALIDATION_DATA.epochs()))


def losses(model: Transformer, strings: Batch) -> torch.Tensor:
    with torch.no_grad():
        logits = model.double()(*from_counts(strings.counts, torch.float64)).output_logits
    return binary_cross_entropy_with_logits(logits, strings.labels.double(), reduction="none")


def test_ablation_is_the_loss_of_the_model_without_the_head(models, strings):
    model, means = models[1], mean_results(models[1], strings)
    found = ablation_importance(model, strings, means)
    for head in (0, 5, 15):
        without = losses(without_heads(model, {head: means[head]}), strings).mean()
        assert found[head].item() == pytest.approx((without - losses(model, strings).mean()).item(), abs=1e-8)


def test_horizon_importance_and_that_mean_and_zero_differ(models, strings):
    model, means = models[0], mean_results(models[0], strings)
    found = horizon_importance(model, strings, means)
    to_mean = [horizon(without_heads(model, {head: mean})) for head, mean in means.items()]
    to_zero = [horizon(without_heads(model, {head: 0.0})) for head in range(16)]
    assert found.tolist() == [-length for length in to_mean]
    assert to_mean != to_zero


@pytest.fixture(scope="module")
def test_strings() -> Batch:
    return concatenate(next(experiments.TEST_DATA.epochs()))


@pytest.mark.parametrize("measure", [*MEASURES, "random"])
def test_pruning_takes_one_head_after_another(models, strings, test_strings, measure):
    for model in models:
        silent, points = prune(model, strings, MEASURES.get(measure, random_importance), test_strings)
        assert len(silent) == 15 and silent.keys() < set(range(16))
        assert silent == {head: mean_results(model, strings)[head] for head in silent}
        assert [point.num_heads for point in points] == list(range(16, 0, -1))
        assert (points[0].errors, points[0].horizon) == (0, horizon(model))
        half = without_heads(model, Pruning(silent, points).down_to(8))
        wrong = evaluation.evaluate(half, test_strings).wrong_strings
        assert points[8] == (8, len(wrong), horizon(half))
        # Half of the heads can go by measure, while no test string is lost, and the horizon gets longer on the way.
        keeps_all = all(point.errors == 0 for point in points[:9])
        assert keeps_all == (measure != "random")
        assert measure == "random" or max(point.horizon for point in points) > 2 * points[0].horizon


def test_the_least_important_goes_first_of_those_that_are_left(models, strings, test_strings):
    means = mean_results(models[0], strings)
    order = [*prune(models[0], strings, ablation_importance, test_strings).silent]
    for step in (0, 1, 9):
        measured = ablation_importance(models[0], strings, means, order[:step]).tolist()
        assert order[step] == min(set(means) - set(order[:step]), key=measured.__getitem__)


def test_a_random_order_is_that_of_the_seed(models, strings):
    first, again, other = (
        random_importance(model, strings, dict.fromkeys(range(16), 0.0)) for model in (models[0], models[0], models[1])
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_down_to():
    points = [CurvePoint(heads, 0, 0) for heads in (3, 2, 1)]
    pruning = Pruning({2: 0.5, 0: 1.5}, points)
    assert (pruning.down_to(3), pruning.down_to(2), pruning.down_to(1)) == ({}, {2: 0.5}, {2: 0.5, 0: 1.5})
    for num_heads in (0, 4):
        with pytest.raises(ValueError, match="from 1 to 3"):
            pruning.down_to(num_heads)


def test_constants_are_taken_by_head_whatever_their_order(models, strings, test_strings):
    means = mean_results(models[0], strings)
    turned = dict(reversed(means.items()))
    by_head, by_turned = (prune(models[0], strings, ablation_importance, test_strings, c) for c in (means, turned))
    assert by_head == by_turned
    for wrong in ({}, {0: 0.5}, means | {16: 0.5}):
        with pytest.raises(ValueError, match="one for each head"):
            prune(models[0], strings, ablation_importance, test_strings, wrong)


def test_where_a_logit_is_nought_nothing_is_proved(test_strings):
    model = build(EXACT)
    errors, length = errors_and_horizon(model, test_strings)
    assert length == 0 and errors == len(evaluation.evaluate(model, test_strings).wrong_strings)


def test_how_far_a_model_is_right_to_one_digit_or_that_it_errs(walkthrough, generalization_errors, test_strings):
    assert horizon(walkthrough.model) == 2166 and how_far(walkthrough.model, test_strings) == "2,000"
    assert how_far(generalization_errors.model, test_strings) == "errors"


@pytest.mark.parametrize("config", [{"norm": "rms"}, {"attention_head_size": 2}, {"dropout": 0.1}])
def test_models_of_other_kinds_are_refused(strings, config):
    model = Transformer(ModelConfig(**config))
    constants = dict.fromkeys(range(2), 0.0)
    for measured in (mean_results, *(lambda m, s, i=i: i(m, s, constants) for i in MEASURES.values())):
        with pytest.raises(ValueError, match="only models without norm and dropout"):
            measured(model, strings)


def test_importance_is_that_of_a_model_whose_silent_heads_are_silent(models, strings):
    constants = mean_results(models[0], strings)
    for importance in MEASURES.values():
        first, then = (importance(models[0], strings, constants, silent) for silent in ([], [0, 3]))
        assert not torch.allclose(first[4:], then[4:])


def test_a_head_that_is_not_there_is_refused(models):
    with pytest.raises(ValueError, match="heads 0 to 15"):
        without_heads(models[0], {16: 0.0})


def test_several_models_are_pruned_as_each_alone(models, strings, test_strings):
    measures = {"ablation": ablation_importance, "random": random_importance}
    together = prune_each(models, strings, measures, test_strings)
    assert together == {
        name: [prune(model, strings, measure, test_strings) for model in models] for name, measure in measures.items()
    }
