"""The named experiments: which models are trained on which data, and what they get wrong.

A further experiment is one entry in `EXPERIMENTS`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_transformer.data import Batch, VariableLengthStrings
from toy_transformer.model import ModelConfig, Transformer, from_counts
from toy_transformer.training import OnEpoch, TrainedModel, one_thread, train

TRAINING_DATA = VariableLengthStrings(max_length=10, alpha=1.0, epoch_size=10_000, batch_size=64, seed=0)
VALIDATION_DATA = VariableLengthStrings(max_length=50, alpha=0.5, epoch_size=1_000, batch_size=64, seed=0)
TEST_DATA = VariableLengthStrings(max_length=200, alpha=0.1, epoch_size=10_000, batch_size=256, seed=2)


@dataclass(frozen=True)
class Experiment:
    """Models of one configuration that differ in the seed of their initialization."""

    seeds: tuple[int, ...]
    model: ModelConfig = ModelConfig()


EXPERIMENTS = {
    "walkthrough": Experiment(seeds=(5,)),
    "generalization_errors": Experiment(seeds=(2,)),
}


@dataclass(frozen=True)
class Run(TrainedModel):
    """A trained model and what it got wrong on the test strings.

    `confusion_matrix` is [[true negatives, false positives], [false negatives, true positives]];
    `wrong_strings` are the wrongly classified strings in short form, sorted.
    """

    confusion_matrix: list[list[int]]
    wrong_strings: list[str]


def run(name: str, on_epoch: OnEpoch | None = None) -> list[Run]:
    """Train and test the models of an experiment; give one run for each model seed.

    `on_epoch` is told the seed, the epoch and the losses after each epoch; `print_losses` is one to pass.
    Raises `ValueError` for an unknown name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment {name!r}: expected one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    datasets = (TRAINING_DATA, VALIDATION_DATA, TEST_DATA)
    training, validation, test = (replace(data, task=experiment.model.task).epochs() for data in datasets)
    histories = train(experiment.model, experiment.seeds, training, next(validation), on_epoch=on_epoch)
    test_strings = next(test)
    return [Run(**vars(history), **evaluate(history.model, test_strings)) for history in histories]


def print_losses(seed: int, epoch: int, train_loss: float, validation_loss: float) -> None:
    """Print one line for an epoch, with the digits that are the same on every machine."""
    losses = [f"{float(f'{loss:.3g}'):g}" for loss in (train_loss, validation_loss)]
    print(f"seed {seed}, epoch {epoch:2}: training loss {losses[0]:5}  validation loss {losses[1]}")


def classify(model: Transformer, counts: Int[Tensor, "batch letter"]) -> Bool[Tensor, "batch"]:
    """Say for each string, given as letter counts, whether the model's logit is positive."""
    with torch.no_grad(), one_thread():
        return model(*from_counts(counts, model.embedding.weight.dtype), num_queries=1).output_logits > 0


def evaluate(model: Transformer, batches: Sequence[Batch]) -> dict:
    """Compare a model's answers with the right ones: the last two fields of a `Run`."""
    counts = torch.cat([batch.counts for batch in batches])
    labels = torch.cat([batch.labels for batch in batches])
    predictions = classify(model, counts)
    confusion_matrix = torch.bincount(2 * labels + predictions, minlength=4).reshape(2, 2).tolist()
    wrong = counts[predictions != labels.bool()].tolist()
    return dict(
        confusion_matrix=confusion_matrix,
        wrong_strings=sorted(model.tokenizer.short_form(row) for row in wrong),
    )
