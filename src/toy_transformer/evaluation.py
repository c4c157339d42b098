"""What a model gets wrong."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_transformer.data import Batch
from toy_transformer.model import Transformer, from_counts
from toy_transformer.task import contains_all
from toy_transformer.training import one_thread


def classify(model: Transformer, counts: Int[Tensor, "batch letter"]) -> Bool[Tensor, "batch"]:
    """Say for each string, given as letter counts, whether the model's logit is positive."""
    with torch.no_grad(), one_thread():
        return model(*from_counts(counts, model.embedding.weight.dtype), num_queries=1).output_logits > 0


def is_right(model: Transformer, string: str) -> bool:
    """Say whether the model answers one string rightly."""
    logit = model.trace([string]).output_logits.item()
    return (logit > 0) == contains_all(string, model.config.task.required)


def evaluate(model: Transformer, strings: Batch) -> dict:
    """Compare a model's answers with the right ones: the last two fields of a `Run`."""
    predictions = classify(model, strings.counts)
    confusion_matrix = torch.bincount(2 * strings.labels + predictions, minlength=4).reshape(2, 2).tolist()
    wrong = strings.counts[predictions != strings.labels.bool()].tolist()
    return dict(
        confusion_matrix=confusion_matrix,
        wrong_strings=sorted(model.tokenizer.short_form(row) for row in wrong),
    )
