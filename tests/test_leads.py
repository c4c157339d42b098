"""How soon heads come to look for one letter."""

import math
from dataclasses import replace

import pytest

from toy_transformer.data import concatenate
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.experiments import EXPERIMENTS, TRAINING_DATA, VALIDATION_DATA
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import false_finds, learning, looks_for
from toy_transformer.training import TrainingConfig, train
from toy_transformer.weights import build

USUAL, SLOW = EXPERIMENTS["all_initializations"], [4]


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)


def test_what_a_head_finds_without_its_letter():
    """Head 0 says 0, 1 and 4 for `a`, `b` and `c`, with scores 0, ln 9 and ln 3; head 1 looks for what it has not."""
    model = build(
        EXACT
        | {"CLS": [1, 0], "a": [0, 0], "b": [1, 0], "c": [0, 1]}
        | {"W_Q": [[1, 0], [1, 0]], "W_K": [[math.log(9), math.log(3)], [0, 1]], "W_V": [[1, 4], [1, 2]]}
    )
    assert [letter for letter, _ in looks_for(model)] == ["b", "c"]
    without_b, without_c = (1 * 0 + 3 * 4) / 4, 0.5
    assert false_finds(model) == pytest.approx([(without_b - 4) / (1 - 4), (without_c - 0) / (2 - 0)])


def test_learning_of_the_published_model():
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)  # an epoch of one step
    rule = TrainingConfig(max_epochs=30 * 156, first_stop_epoch=300, target_loss=1e9)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    (run,) = train([Transformer(seed=5)], training.epochs(), validation, rule)
    small = next(i for i in range(10, 301, 10) if run.validation_losses[i - 1] < 0.01 * len(validation.counts))
    scores = [run.model_at(i).trace(["abc"]).attention_scores[0, :, 0, 1:] for i in range(0, small + 1, 10)]
    both = max(10 * (i + 1) for i, each in enumerate(scores) if sorted(each.argmax(dim=1).tolist()) != [0, 1])
    _, second, first = scores[-1].sort(dim=1).values.T
    learnt = learning(USUAL, [5])
    assert learnt["both letters"] == both and learnt["small loss"] == small
    assert learnt["smaller lead"] == pytest.approx((first - second).min().item(), rel=0.01)  # as the rate falls


def test_learning_is_that_of_models_that_learn():
    assert learning(USUAL, SLOW + [5]) == pytest.approx(learning(USUAL, [5]), rel=1e-4)  # float32, side by side


def test_refuses_where_nothing_is_learnt():
    with pytest.raises(ValueError, match="300 steps"):
        learning(replace(USUAL, training=TrainingConfig(learning_rate=1e-6, final_learning_rate=1e-6)), SLOW)
