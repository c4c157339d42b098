"""Which letter heads look for, and how clearly."""

from dataclasses import replace

import pytest
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer.data import concatenate, from_counts
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA
from toy_transformer.model import Transformer
from toy_transformer.studies.leads import course, describe_heads, first_step, looks_for
from toy_transformer.training import TrainingConfig, train


def test_what_the_heads_of_the_published_model_look_for(walkthrough):
    (first, lead), (second, other_lead) = looks_for(walkthrough.model)
    assert (first, second) == ("a", "b")
    assert (lead, other_lead) == pytest.approx((7.24, 7.81), abs=0.006)
    assert describe_heads(walkthrough.model) == "a 7.2, b 7.8"


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_the_course_of_a_training(beta1):
    """Against epochs of one step."""
    rule, start = TrainingConfig(beta1=beta1), Transformer(seed=5)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    by_step = replace(rule, max_epochs=30 * 156, first_stop_epoch=20, target_loss=1e9)
    (run,) = train([start], training.epochs(), validation, by_step)
    found = course(start, 20, rule)
    assert [point.step for point in found] == [*range(1, 21)]
    for point, loss in zip(found, run.validation_losses, strict=True):
        trace = run.model_at(point.step).trace(["abc"])
        _, second, first = trace.attention_scores[0, :, 0, 1:].sort(dim=1).values.T
        lead, head = (first - second).min(dim=0)
        assert point.loss == pytest.approx(loss / len(validation.counts), rel=1e-3)
        assert point.lead == pytest.approx(lead.item(), rel=0.01, abs=1e-5)  # the rate falls
        assert point.query == pytest.approx(trace.Q[0, head, 0, 0].abs().item(), rel=0.01)


def test_the_first_step():
    """AdamW begins with a step of the learning rate against the sign of each gradient, and weight decay."""
    start, rule = Transformer(seed=5), TrainingConfig()
    batch = next(TRAINING_DATA.epochs())[0]
    logits = start(*from_counts(batch.counts)).output_logits
    binary_cross_entropy_with_logits(logits, batch.labels.float()).backward()
    cls, w_q = start.embedding.weight, start.self_attention_block.W_Q.weight
    moved = [x - rule.learning_rate * (x.grad.sign() + rule.weight_decay * x) for x in (cls, w_q)]
    found = first_step([start])
    assert found.number_of_W_Q == pytest.approx((moved[1] - w_q).abs().mean().item(), rel=1e-3)
    queries = [arrows @ vectors[0] for vectors, arrows in ((cls, w_q), moved)]
    assert found.query == pytest.approx((queries[1] - queries[0]).abs().mean().item(), rel=1e-3)


@pytest.mark.parametrize("num_steps", [-1, 0, 4700])
def test_refuses_steps_that_cannot_be(num_steps):
    with pytest.raises(ValueError, match=f"{num_steps} steps: expected 1 to 46"):
        course(Transformer(seed=5), num_steps)
