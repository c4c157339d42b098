"""How soon heads come to look for one letter."""

import math
from dataclasses import replace

import pytest

from toy_transformer.data import concatenate
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.experiments import EXPERIMENTS, TRAINING_DATA, VALIDATION_DATA
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import false_finds, leads_and_losses, looks_for
from toy_transformer.training import TrainingConfig, train
from toy_transformer.weights import build

USUAL, SEEDS = EXPERIMENTS["all_initializations"], range(3)


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


def test_leads_and_losses_are_those_of_training():
    leads, losses, number_of_both = [], [], 0
    training = replace(TRAINING_DATA, epoch_size=2 * TRAINING_DATA.batch_size)
    rule = TrainingConfig(max_epochs=30 * 10_000 // 128, first_stop_epoch=2, target_loss=1e9)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    for seed in SEEDS:
        (run,) = train([Transformer(seed=seed)], training.epochs(), validation, rule)
        for head in run.model_at(2).trace(["abc"]).attention_scores[0, :, 0, 1:].tolist():
            *_, next_best, best = sorted(head)
            leads.append(best - next_best)
        number_of_both += {letter for letter, _ in looks_for(run.model_at(2))} == {"a", "b"}
        losses.append(run.validation_losses[1] / len(validation.counts))
    grown = leads_and_losses(USUAL, [2, 4], SEEDS)
    assert grown["lead", 4] == pytest.approx(sum(leads) / 6)
    assert grown["both letters", 4] == number_of_both
    assert grown["loss", 4] == pytest.approx(sorted(losses)[1])


def test_steps():
    both = leads_and_losses(USUAL, [2, 4], SEEDS)
    assert list(both) == [(name, step) for step in (2, 4) for name in ("lead", "loss", "both letters")]
    assert both["lead", 2] != both["lead", 4]
    assert leads_and_losses(USUAL, [2], SEEDS)["lead", 2] == both["lead", 2]


@pytest.mark.parametrize("steps", [[], [0, 2], [-1, 2]])
def test_refuses_steps_that_cannot_be(steps):
    with pytest.raises(ValueError, match="steps="):
        leads_and_losses(USUAL, steps, SEEDS)
