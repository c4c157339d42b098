"""The gradient that is written out by hand against autograd's, on random models and random strings."""

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from toy_transformer._gradients import differentiate, is_written_out
from toy_transformer.data import Batch, VariableLengthStrings, from_counts
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.task import Task

CONFIGS = [
    ModelConfig(),
    ModelConfig(attend_cls=True),
    ModelConfig(hidden_size=16),
    ModelConfig(hidden_size=16, num_attention_heads=16, embedding_init="linear_like"),
    ModelConfig(hidden_size=3, num_attention_heads=1, feed_forward_size=5, attend_cls=True),
    ModelConfig(Task("abcde", "bd"), hidden_size=4, num_attention_heads=3),
]


def _by_autograd(weights, template, batch):
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    inputs = from_counts(batch.counts, torch.float64)
    logits = vmap(lambda weights: functional_call(template, weights, inputs).output_logits)(weights)
    labels = batch.labels.to(logits.dtype).expand_as(logits)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(dim=-1)
    return losses, dict(zip(weights, torch.autograd.grad(losses.sum(), weights.values()), strict=True))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("scale", [0.1, 1.0, 6.0])
def test_as_by_autograd(config, scale):
    """In float64 to its last digits; larger weights make sharper attention and larger logits."""
    models = [Transformer(config, seed).double() for seed in range(20)]
    weights = {name: scale * weight.detach() for name, weight in stack_module_state(models)[0].items()}
    data = VariableLengthStrings(config.task, max_length=30, batch_size=32, epoch_size=96, seed=int(10 * scale))
    for batch in next(data.epochs()):
        losses, gradients = differentiate(weights, config, batch)
        expected_losses, expected = _by_autograd(weights, models[0], batch)
        torch.testing.assert_close(losses.clone(), expected_losses.detach(), rtol=1e-12, atol=1e-13)
        assert gradients.keys() == expected.keys()
        for name, gradient in gradients.items():
            size = expected[name].abs().max().item()
            torch.testing.assert_close(gradient.clone(), expected[name], rtol=1e-10, atol=1e-12 * max(size, 1))


def test_one_string_that_has_only_one_letter():
    model = Transformer().double()
    weights = {name: weight.detach()[None] for name, weight in model.named_parameters()}
    batch = Batch(torch.tensor([[0, 0, 7]]), torch.tensor([0]))
    _, gradients = differentiate(weights, model.config, batch)
    _, expected = _by_autograd(weights, model, batch)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient.clone(), expected[name])


@pytest.mark.parametrize(
    "option", [dict(norm="layer"), dict(dropout=0.1), dict(length_scaling=0.5), dict(attention_head_size=2)]
)
def test_what_is_not_written_out_is_refused(option):
    config = ModelConfig(**option)
    assert not is_written_out(config)
    with pytest.raises(ValueError, match="expected heads of size 1, no norm, dropout or length scaling"):
        differentiate({}, config, Batch(torch.tensor([[1, 1, 1]]), torch.tensor([1])))
