"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA, Experiment, retrain
from toy_transformer.model import Transformer
from toy_transformer.training import TrainedModel


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


class Overshoot(NamedTuple):
    """The smallest lead of a head and its query, when the loss first is small, and later where this lead is greatest.

    A query is without its sign; all are medians of so many `trainings`.
    """

    trainings: int
    lead: float
    query: float
    greatest_lead: float
    greatest_query: float


def overshoot(experiment: Experiment, num_steps: int = 200, small_loss: float = 0.05) -> Overshoot:
    """Say how far leads go on in an experiment's trainings, of `num_steps`, looked at in every tenth step.

    Those count in which the mean loss of a validation string falls below the `small_loss`. Raises `ValueError` if none
    does, and for less than one of `num_steps`, or more than the training may have.
    """
    found, small_sum = [], small_loss * VALIDATION_DATA.num_strings
    for run in _train_steps(experiment, num_steps):
        if first := next((step for step, loss in enumerate(run.validation_losses, 1) if loss < small_sum), None):
            points = [_smallest_lead(run.model_at(step)) for step in range(first, num_steps + 1, 10)]
            found.append((*points[0], *max(points)))
    if not found:
        raise ValueError(f"no training of {num_steps} steps has a loss below {small_loss}")
    return Overshoot(len(found), *(median(column) for column in zip(*found, strict=True)))


class StepSize(NamedTuple):
    """By how much a step of training changes a number of W_Q, and the query of CLS in a head: means, without sign.

    In a full step each number of W_Q changes by the learning rate, so that the query changes by the most that can be.
    """

    number_of_W_Q: float
    query: float
    full: float


def first_step(experiment: Experiment) -> StepSize:
    """Say how large the first step of an experiment's trainings is."""
    runs = _train_steps(experiment, 1)
    before, after = ([run.model_at(step) for run in runs] for step in (0, 1))
    moved, changed = (_mean_change(of, before, after) for of in (_query_arrows, _queries))
    sum_of_sizes = fmean(model.embedding.weight[0].abs().sum().item() for model in before)
    return StepSize(moved, changed, experiment.training.learning_rate * sum_of_sizes)


def _train_steps(experiment: Experiment, num_steps: int) -> list[TrainedModel]:
    """Train with the usual strings; each step is an epoch, after which the weights are kept."""
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    return retrain([Transformer(experiment.model, seed) for seed in experiment.seeds], rule, training)


def _smallest_lead(model: Transformer) -> tuple[float, float]:
    """Give the smallest lead, and the query of its head."""
    return min(zip((lead for _, lead in looks_for(model)), _queries(model).abs().tolist(), strict=True))


def _query_arrows(model: Transformer) -> Float[Tensor, "head hidden_size"]:
    return model.self_attention_block.W_Q.weight


def _queries(model: Transformer) -> Float[Tensor, "head"]:
    return _query_arrows(model) @ model.embedding.weight[0]


def _mean_change(
    of: Callable[[Transformer], Tensor], before: Sequence[Transformer], after: Sequence[Transformer]
) -> float:
    return fmean((of(new) - of(old)).abs().mean().item() for old, new in zip(before, after, strict=True))
