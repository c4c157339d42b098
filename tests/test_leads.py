"""Which letter heads look for, and how clearly."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from toy_transformer.experiments import TRAINING_DATA, Experiment, retrain
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import describe_heads, leading_heads, looks_for, overshoot
from toy_transformer.training import TrainingConfig
from toy_transformer.weights import build, numbers_of


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)
    assert describe_heads(walkthrough.model) == "a 7.2, b 7.8"


def test_the_heads_with_the_largest_leads(walkthrough, runs):
    assert leading_heads(walkthrough.model) == [0, 1]
    model = runs["increased_num_attention_heads"][3].model
    found = looks_for(model)
    for head, letter in zip(leading_heads(model), "ab", strict=True):
        assert found[head] == max((lead for lead in found if lead[0] == letter), key=lambda lead: lead[1])
    numbers = numbers_of(walkthrough.model)
    both_for_b = {name: [numbers[name][1]] * 2 for name in ("W_Q", "W_K")}
    with pytest.raises(ValueError, match="no head looks for a$"):
        leading_heads(build(numbers | both_for_b))


def test_overshoot():
    """Against epochs of one step."""
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    by_step = TrainingConfig(max_epochs=30 * 156, first_stop_epoch=200, target_loss=1e9)
    (run,) = retrain([Transformer(seed=5)], by_step, training)
    steps = [run.model_at(step).trace(["abc"]).attention_scores[0, :, 0, 1:].sort(dim=1).values for step in range(201)]
    leads = torch.stack([scores[:, 2] - scores[:, 1] for scores in steps])
    there = [(of_head >= 3).nonzero()[0, 0] for of_head in leads.T]
    expected = [of_head[step + 10] - of_head[step] for of_head, step in zip(leads.T, there, strict=True)]
    assert overshoot(Experiment(seeds=[5]), 10, 3, 200) == pytest.approx(np.array(expected), rel=1e-3)


def test_heads_whose_lead_is_plenty_in_time():
    def num_heads(num_after: int, num_steps: int) -> int:
        return len(overshoot(Experiment(seeds=[5]), num_after, num_steps=num_steps))

    assert num_heads(0, 100) == 1  # head 0 gets there in step 101
    assert num_heads(0, 101) == 2
    assert num_heads(49, 150) == 2
    assert num_heads(50, 150) == 1
    with pytest.raises(ValueError, match="no head has a lead of 4.0 soon enough in 50 steps"):
        overshoot(Experiment(seeds=[5]), 0, num_steps=50)


@pytest.mark.parametrize("num_steps", [-1, 0, 4700])
def test_refuses_steps_that_cannot_be(num_steps):
    with pytest.raises(ValueError, match=f"{num_steps} steps: expected 1 to 46"):
        overshoot(Experiment(), 0, num_steps=num_steps)
