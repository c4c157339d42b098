"""Which letter heads look for, and how clearly."""

from dataclasses import replace

import pytest

from toy_transformer.experiments import TRAINING_DATA, Experiment, retrain
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import describe_heads, looks_for, overshoot
from toy_transformer.training import TrainingConfig


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)
    assert describe_heads(walkthrough.model) == "a 7.2, b 7.8"


def test_overshoot():
    """Against epochs of one step."""
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    by_step = TrainingConfig(max_epochs=30 * 156, first_stop_epoch=200, target_loss=1e9)
    (run,) = retrain([Transformer(seed=5)], by_step, training)
    leads = []
    for step in range(201):
        _, second, best = run.model_at(step).trace(["abc"]).attention_scores[0, :, 0, 1:].sort(dim=1).values.T
        leads.append((best - second).min().item())
    first = next(step for step, lead in enumerate(leads) if lead >= 3)
    found = overshoot(Experiment(seeds=[5]), [0, 10], 3, 200)
    assert found[0] == pytest.approx([leads[first], leads[first + 10]], rel=1e-3)


def test_trainings_whose_lead_is_plenty_in_time():
    assert overshoot(Experiment(seeds=[5, 9]), [0], num_steps=110).shape == (1, 1)
    assert overshoot(Experiment(seeds=[5]), [0, 49], num_steps=150).shape == (1, 2)
    with pytest.raises(ValueError, match="no training of 110 steps has a lead of 4.0 in time"):
        overshoot(Experiment(seeds=[9]), [0], num_steps=110)
    with pytest.raises(ValueError, match="in time"):
        overshoot(Experiment(seeds=[5]), [0, 50], num_steps=150)


@pytest.mark.parametrize("num_steps", [-1, 0, 4700])
def test_refuses_steps_that_cannot_be(num_steps):
    with pytest.raises(ValueError, match=f"{num_steps} steps: expected 1 to 46"):
        overshoot(Experiment(), [0], num_steps=num_steps)
