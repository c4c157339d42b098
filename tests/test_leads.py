"""How soon heads come to look for one letter."""

import pytest

from toy_transformer.experiments import EXPERIMENTS
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import looks_for, mean_leads

USUAL, SEEDS = EXPERIMENTS["all_initializations"], range(3)


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)


def test_untrained():
    leads = []
    for seed in SEEDS:
        for head in Transformer(seed=seed).trace(["abc"]).attention_scores[0, :, 0, 1:].tolist():
            *_, next_best, best = sorted(head)
            leads.append(best - next_best)
    assert mean_leads(USUAL, [0, 2], SEEDS)[0] == pytest.approx(sum(leads) / 6)


def test_steps():
    both = mean_leads(USUAL, [2, 4], SEEDS)
    assert list(both) == [2, 4] and both[2] != both[4]
    assert mean_leads(USUAL, [2], SEEDS)[2] == both[2]


@pytest.mark.parametrize("steps", [[], [0], [-1, 2]])
def test_refuses_steps_that_cannot_be(steps):
    with pytest.raises(ValueError, match="steps="):
        mean_leads(USUAL, steps, SEEDS)
