"""Models written by hand: what they are made of, and the one that is exact but has no margin."""

import math
from fractions import Fraction

import pytest
import torch
from flint import arb, ctx

from toy_transformer.editing.hand_written import EXACT, comparing
from toy_transformer.experiments import TRAINING_DATA
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.certificate import enclose_logit
from toy_transformer.proofs.horizon import Undecidable, shortest_wrong_string
from toy_transformer.task import PAD, contains_all
from toy_transformer.training import TrainingConfig, train
from toy_transformer.weights import build


def test_a_model_is_made_of_its_numbers(walkthrough):
    """Written down and built again, a trained model is the same."""
    model = walkthrough.model
    numbers = {name.split(".")[-2]: weight.tolist() for name, weight in model.state_dict().items()}
    embeddings = dict(zip(model.tokenizer.vocabulary, numbers.pop("embedding"), strict=True))
    built = build({name: row for name, row in embeddings.items() if name != "PAD"} | numbers)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, built.state_dict()[name])
    assert not built.embedding.weight[PAD].any()


def test_the_exact_model_is_right_in_exact_arithmetic():
    """Its logit is 0 where a letter is missing, up to the width of a ball, and positive where none is."""
    model = build(EXACT)
    with ctx.workprec(256):
        for counts in [(n, m, k) for n in range(7) for m in range(7) for k in range(7) if n + m + k]:
            logit = enclose_logit(model, counts)
            x, y = (Fraction(n, sum(counts)) for n in counts[:2])
            if contains_all([letter for letter, n in zip("abc", counts, strict=True) if n]):
                assert logit > 0
            else:
                assert logit.contains(0) and logit.rad() < 1e-70
            gelu = [float(z) * (1 + math.erf(z / math.sqrt(2))) / 2 for z in (x + y, x - y)]
            assert (logit - (gelu[0] - gelu[1] - float(y))).abs_upper() < arb(1e-15)


def test_the_exact_model_has_no_margin():
    with pytest.raises(Undecidable, match="too near 0 to have a sign"):
        shortest_wrong_string(build(EXACT))
    logits = torch.cat([build(EXACT).trace([f"b{{{n}}}c{{{m}}}"]).output_logits for n in range(1, 30) for m in (1, 7)])
    assert (logits > 0).any() and logits.abs().max() < 1e-6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a": [1, 0, 0]}, "a=.*expected finite numbers of shape"),
        ({"W_Q": [1, 0]}, "W_Q=.*expected finite numbers of shape"),
        ({"W_V": [[1, 0], [0]]}, "W_V: "),
        ({"classifier": [[0, math.inf]]}, "classifier=.*expected finite numbers"),
        ({"classifier": "x"}, "classifier: "),
        ({"W_q": [[0, 0], [0, 0]]}, "expected .*W_Q"),
    ],
)
def test_what_is_no_model(change, reason):
    with pytest.raises(ValueError, match=reason):
        build(EXACT | change)


@pytest.mark.parametrize("numbers", [5, {1: [0, 0]}, None])
def test_what_has_no_names(numbers):
    with pytest.raises(ValueError, match="expected the names CLS, PAD, W_K"):
        build(numbers)


def test_a_missing_name():
    with pytest.raises(ValueError, match="expected .*classifier"):
        build({name: numbers for name, numbers in EXACT.items() if name != "classifier"})


def test_comparing_tokens_as_they_are():
    model = Transformer(seed=5)
    compares = comparing(model, 3)
    tokens = model.trace(["abc"]).embeddings[0]
    trace = compares.trace(["abc"])
    for head in (0, 1):
        scores = trace.Q[0, head] @ trace.K[0, head].mT
        torch.testing.assert_close(scores, 9 * torch.outer(tokens[:, head], tokens[:, head]))
    assert torch.equal(compares.classifier.weight, model.classifier.weight)
    batch = next(TRAINING_DATA.epochs())[0]
    (trained,) = train([compares], iter([[batch]]), batch, TrainingConfig(max_epochs=1))
    assert not torch.equal(trained.model.classifier.weight, compares.classifier.weight)
    assert torch.equal(trained.model.self_attention_block.W_Q.weight, 3 * torch.eye(2))
    with pytest.raises(ValueError, match=r"W_Q, of shape \(3, 2\)"):
        comparing(Transformer(ModelConfig(num_attention_heads=3)))


def test_other_sizes():
    config = ModelConfig(feed_forward_size=1)
    model = build(EXACT | {"W_in": [[1, 1]], "W_out": [[0], [1]]}, config)
    assert isinstance(model, Transformer) and model.config == config
