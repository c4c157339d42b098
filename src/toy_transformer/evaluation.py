"""What a model gets wrong."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_transformer.data import Batch, from_counts
from toy_transformer.model import Transformer
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


@dataclass(frozen=True)
class TestResult:
    """What a model got wrong.

    `confusion_matrix` is [[true negatives, false positives], [false negatives, true positives]];
    `wrong_strings` are the wrongly classified strings in short form, sorted.
    """

    confusion_matrix: list[list[int]]
    wrong_strings: list[str]

    @property
    def false_positives(self) -> int:
        return self.confusion_matrix[0][1]

    @property
    def false_negatives(self) -> int:
        return self.confusion_matrix[1][0]


def evaluate(model: Transformer, strings: Batch) -> TestResult:
    """Compare a model's answers with the right ones."""
    predictions = classify(model, strings.counts)
    confusion_matrix = torch.bincount(2 * strings.labels + predictions, minlength=4).reshape(2, 2).tolist()
    wrong = strings.counts[predictions != strings.labels.bool()].tolist()
    return TestResult(confusion_matrix, sorted(map(model.tokenizer.short_form, wrong)))
