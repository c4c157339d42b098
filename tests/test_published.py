"""The published numbers, out of trainings that happen in this test.

Embeddings, values, transformed CLS and logits hold to all printed decimals. Attention weights are held to
1e-4 relative and the probability to 1e-5: training over letter counts in float32 sums in another order than
the published training over padded tokens, which moves the fifth digit of tiny weights.
"""

import pytest
import torch


def _decimals(tensor: torch.Tensor) -> list:
    return torch.round(tensor.double(), decimals=4).tolist()


def test_walkthrough(walkthrough, published):
    facts = published["walkthrough"]
    assert walkthrough.seed == facts["model_seed"]
    assert len(walkthrough.validation_losses) == facts["n_epochs"]
    assert walkthrough.best_epoch == facts["best_epoch"]
    assert walkthrough.confusion_matrix == facts["confusion_matrix"]
    assert walkthrough.wrong_strings == []
    model = walkthrough.model
    embeddings = dict(zip(model.tokenizer.vocabulary, _decimals(model.embedding.weight), strict=True))
    assert embeddings == facts["embeddings"]


def test_walkthrough_trace(walkthrough, published):
    facts = published["walkthrough"]
    strings = list(facts["output_logits"])
    trace = walkthrough.model.trace(strings)
    assert dict(zip(strings, _decimals(trace.output_logits), strict=True)) == facts["output_logits"]
    assert dict(zip(strings, _decimals(trace.transformed_embeddings[:, 0]), strict=True)) == facts["transformed_cls"]
    for head in (0, 1):
        for weights, expected in zip(
            trace.attention_weights[:, head, 0].tolist(),
            facts[f"attention_weights_cls_head{head}"].values(),
            strict=True,
        ):
            assert weights == pytest.approx(expected, rel=1e-4, abs=0)


def test_generalization_errors(generalization_errors, published):
    facts, run = published["generalization_errors"], generalization_errors
    assert run.seed == facts["model_seed"]
    assert {facts["false_positive"], facts["false_negative"]} <= set(run.wrong_strings)
    model = run.model
    logits = model.trace([facts["false_positive"], facts["false_negative"]]).output_logits
    assert (logits > 0).tolist() == [True, False]
    values = dict(zip("abc", _decimals(model.trace(["abc"]).V[0, 0, 1:, 0]), strict=True))
    assert {letter: values[letter] for letter in facts["value_head0"]} == facts["value_head0"]
    for string, probability in facts["probability"].items():
        assert model.trace([string]).output_logits.sigmoid().item() == pytest.approx(probability, abs=1e-5, rel=0)
