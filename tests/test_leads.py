"""Which letter heads look for, and how clearly."""

import math
from dataclasses import replace

import pytest

from toy_transformer.data import concatenate
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import course, false_finds, looks_for
from toy_transformer.training import TrainingConfig, train
from toy_transformer.weights import build


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)


def test_what_a_head_finds_without_its_letter():
    """Head 0 says 1/2, 1 and 4 for `a`, `b` and `c`, and looks at `a` and `c` alike, and at `b`.

    Head 1 says 1/2, 1 and 2, and looks at `a` and `b` alike, and at `c`.
    """
    model = build(
        EXACT
        | {"CLS": [1, 0], "a": [0.5, 0], "b": [1, 0], "c": [0, 1]}
        | {"W_Q": [[1, 0], [1, 0]], "W_K": [[2, 1], [0, 1]], "W_V": [[1, 4], [1, 2]]}
    )
    assert [letter for letter, _ in looks_for(model)] == ["b", "c"]
    without_b, without_c = (0.5 + 4) / 2, (0.5 + 1) / 2
    assert false_finds(model) == pytest.approx([(without_b - 0.5) / (1 - 0.5), (without_c - 0.5) / (2 - 0.5)])


def test_a_head_for_which_all_letters_are_the_same():
    model = build(EXACT | {"W_V": [[0, 0], [1, 1]]})
    assert [math.isnan(share) for share in false_finds(model)] == [True, False]


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_the_course_of_a_training(beta1):
    """Against epochs of ten steps."""
    rule, start = TrainingConfig(beta1=beta1), Transformer(seed=5)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    training = replace(TRAINING_DATA, epoch_size=10 * TRAINING_DATA.batch_size)  # an epoch of ten steps
    by_ten = replace(rule, max_epochs=30 * 156 // 10, first_stop_epoch=2, target_loss=1e9)
    (run,) = train([start], training.epochs(), validation, by_ten)
    found = course(start, rule, num_steps=20)
    assert [point.step for point in found] == [10, 20]
    for epoch, point in enumerate(found, start=1):
        _, second, first = run.model_at(epoch).trace(["abc"]).attention_scores[0, :, 0, 1:].sort(dim=1).values.T
        assert point.loss == pytest.approx(run.validation_losses[epoch - 1] / len(validation.counts), rel=1e-3)
        assert point.smaller_lead == pytest.approx((first - second).min().item(), rel=0.01, abs=1e-5)  # the rate falls
    by_step = replace(rule, max_epochs=30 * 156, first_stop_epoch=20, target_loss=1e9)
    (run,) = train([start], replace(training, epoch_size=training.batch_size).epochs(), validation, by_step)
    before, after = (run.weights[step]["self_attention_block.W_Q.weight"] for step in (19, 20))
    assert found[-1].move == pytest.approx((after - before).abs().mean().item(), rel=1e-4)


@pytest.mark.parametrize("num_steps", [0, 15, 4700])
def test_refuses_steps_that_cannot_be(num_steps):
    with pytest.raises(ValueError, match=f"num_steps={num_steps}: expected a multiple of ten, of at most 46"):
        course(Transformer(seed=5), num_steps=num_steps)
