"""Which heads matter, and pruning by it."""

import pytest
import torch

from toy_transformer import evaluation, experiments
from toy_transformer.data import Batch, concatenate
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.editing.heads import (
    CurvePoint,
    Pruning,
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

ORDERS = {"horizon": horizon_importance, "random": random_importance}


@pytest.fixture(scope="module")
def models(runs) -> list[Transformer]:
    """Two of the eight models with sixteen heads."""
    return [run.model for run in runs["increased_num_attention_heads"][:2]]


@pytest.fixture(scope="module")
def strings() -> Batch:
    return concatenate(next(experiments.VALIDATION_DATA.epochs()))


def test_horizon_importance_and_that_mean_and_zero_differ(models, strings):
    model, means = models[0], mean_results(models[0], strings)
    found = horizon_importance(model, means)
    to_mean = [horizon(without_heads(model, {head: mean})) for head, mean in means.items()]
    to_zero = [horizon(without_heads(model, {head: 0.0})) for head in range(16)]
    assert found.tolist() == [-length for length in to_mean]
    assert to_mean != to_zero


@pytest.fixture(scope="module")
def test_strings() -> Batch:
    return concatenate(next(experiments.TEST_DATA.epochs()))


@pytest.mark.parametrize("order", ORDERS)
def test_pruning_takes_one_head_after_another(models, strings, test_strings, order):
    for model in models:
        silent, points = prune(model, strings, ORDERS[order], test_strings)
        assert len(silent) == 15 and silent.keys() < set(range(16))
        assert silent == {head: mean_results(model, strings)[head] for head in silent}
        assert [point.num_heads for point in points] == list(range(16, 0, -1))
        assert (points[0].errors, points[0].horizon) == (0, horizon(model))
        half = without_heads(model, Pruning(silent, points).down_to(8))
        wrong = evaluation.evaluate(half, test_strings).wrong_strings
        assert points[8] == (8, len(wrong), horizon(half))
        # Half of the heads can go by horizon, while no test string is lost, and the horizon gets longer on the way.
        keeps_all = all(point.errors == 0 for point in points[:9])
        assert keeps_all == (order == "horizon")
        assert order == "random" or max(point.horizon for point in points) > 2 * points[0].horizon


def test_the_least_important_goes_first_of_those_that_are_left(models, strings, test_strings):
    means = mean_results(models[0], strings)
    order = [*prune(models[0], strings, horizon_importance, test_strings).silent]
    for step in (0, 1, 9):
        measured = horizon_importance(models[0], means, order[:step]).tolist()
        assert order[step] == min(set(means) - set(order[:step]), key=measured.__getitem__)


def test_a_random_order_is_that_of_the_seed(models):
    first, again, other = (
        random_importance(model, dict.fromkeys(range(16), 0.0)) for model in (models[0], models[0], models[1])
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_down_to():
    points = [CurvePoint(heads, 0, 0) for heads in (3, 2, 1)]
    pruning = Pruning({2: 0.5, 0: 1.5}, points)
    assert (pruning.down_to(3), pruning.down_to(2), pruning.down_to(1)) == ({}, {2: 0.5}, {2: 0.5, 0: 1.5})
    for num_heads in (0, 4):
        with pytest.raises(ValueError, match="from 1 to 3"):
            pruning.down_to(num_heads)


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
    for measured in (lambda: mean_results(model, strings), lambda: horizon_importance(model, {0: 0.0, 1: 0.0})):
        with pytest.raises(ValueError, match="only models without norm and dropout"):
            measured()


def test_importance_is_that_of_a_model_whose_silent_heads_are_silent(models, strings):
    constants = mean_results(models[0], strings)
    first, then = (horizon_importance(models[0], constants, silent) for silent in ([], [0, 3]))
    assert not torch.allclose(first[4:], then[4:])


def test_a_head_that_is_not_there_is_refused(models):
    with pytest.raises(ValueError, match="heads 0 to 15"):
        without_heads(models[0], {16: 0.0})


def test_several_models_are_pruned_as_each_alone(models, strings, test_strings):
    together = prune_each(models, strings, ORDERS, test_strings)
    assert together == {
        name: [prune(model, strings, importance, test_strings) for model in models]
        for name, importance in ORDERS.items()
    }
