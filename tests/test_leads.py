"""Which letter heads look for, and how clearly."""

from dataclasses import replace
from statistics import fmean

import pytest
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer.data import from_counts
from toy_transformer.experiments import TRAINING_DATA, Experiment, retrain
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import describe_heads, first_step, looks_for, overshoot
from toy_transformer.training import TrainingConfig


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)
    assert describe_heads(walkthrough.model) == "a 7.2, b 7.8"


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_overshoot(beta1):
    """Against epochs of one step."""
    rule = TrainingConfig(beta1=beta1)
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    by_step = replace(rule, max_epochs=30 * 156, first_stop_epoch=200, target_loss=1e9)
    (run,) = retrain([Transformer(seed=5)], by_step, training)
    first = next(step for step in range(1, 201) if run.validation_losses[step - 1] / 960 < 0.05)
    points = []
    for step in range(first, 201, 10):
        trace = run.model_at(step).trace(["abc"])
        _, second, best = trace.attention_scores[0, :, 0, 1:].sort(dim=1).values.T
        lead, head = (best - second).min(dim=0)
        points.append((lead.item(), trace.Q[0, head, 0, 0].abs().item()))
    found = overshoot(Experiment(seeds=[5], training=rule))
    assert found == pytest.approx((1, *points[0], *max(points)), rel=1e-3)


def test_overshoot_has_medians_of_trainings_whose_loss_gets_small():
    alone = [overshoot(Experiment(seeds=[seed]), 150) for seed in (5, 9)]
    medians = [fmean(two) for two in zip(*alone, strict=True)][1:]
    assert overshoot(Experiment(seeds=[13, 5, 9]), 150) == pytest.approx((2, *medians), rel=1e-3)
    with pytest.raises(ValueError, match="no training of 150 steps has a loss below 0.05"):
        overshoot(Experiment(seeds=[13]), 150)


def test_the_first_step():
    """AdamW begins with a step of the learning rate against the sign of each gradient, and weight decay."""
    rule = TrainingConfig(learning_rate=0.03)
    start, batch = Transformer(seed=5), next(TRAINING_DATA.epochs())[0]
    logits = start(*from_counts(batch.counts)).output_logits
    binary_cross_entropy_with_logits(logits, batch.labels.float()).backward()
    cls, w_q = start.embedding.weight, start.self_attention_block.W_Q.weight
    moved = [x - rule.learning_rate * (x.grad.sign() + rule.weight_decay * x) for x in (cls, w_q)]
    found = first_step(Experiment(seeds=[5], training=rule))
    assert found.number_of_W_Q == pytest.approx((moved[1] - w_q).abs().mean().item(), rel=1e-3)
    queries = [arrows @ vectors[0] for vectors, arrows in ((cls, w_q), moved)]
    assert found.query == pytest.approx((queries[1] - queries[0]).abs().mean().item(), rel=1e-3)
    assert found.full == pytest.approx(0.03 * cls[0].abs().sum().item())


@pytest.mark.parametrize("num_steps", [-1, 0, 4700])
def test_refuses_steps_that_cannot_be(num_steps):
    with pytest.raises(ValueError, match=f"{num_steps} steps: expected 1 to 46"):
        overshoot(Experiment(), num_steps)
