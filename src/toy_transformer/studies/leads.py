"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA, retrain
from toy_transformer.model import Transformer
from toy_transformer.training import TrainedModel, TrainingConfig


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


class CoursePoint(NamedTuple):
    """A training after a `step`: the mean loss of a validation string, and of the head with the smallest lead this lead
    and the query of CLS, without its sign.
    """

    step: int
    loss: float
    query: float
    lead: float


def course(model: Transformer, num_steps: int, training_config: TrainingConfig = TrainingConfig()) -> list[CoursePoint]:
    """Train a model, which stays as it is, with the usual strings, and tell what has become of it after each step.

    Raises `ValueError` for less than one of `num_steps`, or more than the `training_config` allows.
    """
    (run,) = _train_steps([model], num_steps, training_config)
    points = []
    for step, loss in enumerate(run.validation_losses, start=1):
        after = run.model_at(step)
        leads = [lead for _, lead in looks_for(after)]
        lead, query = min(zip(leads, _queries(after).abs().tolist(), strict=True))
        points.append(CoursePoint(step, loss / VALIDATION_DATA.num_strings, query, lead))
    return points


class StepSize(NamedTuple):
    """By how much a step of training changes a number of W_Q, and the query of CLS in a head: means, without sign."""

    number_of_W_Q: float
    query: float


def first_step(models: Sequence[Transformer]) -> StepSize:
    """Say how large the first step of the usual training is for `models` of one architecture, which stay."""
    after = [run.model_at(1) for run in _train_steps(models, 1, TrainingConfig())]
    return StepSize(*(_mean_change(of, models, after) for of in (_query_arrows, _queries)))


def _train_steps(models: Sequence[Transformer], num_steps: int, training_config: TrainingConfig) -> list[TrainedModel]:
    """Train with the usual strings; each step is an epoch, after which the weights are kept."""
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    most = training_config.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    rule = replace(training_config, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    return retrain(models, rule, training)


def _query_arrows(model: Transformer) -> Float[Tensor, "head hidden_size"]:
    return model.self_attention_block.W_Q.weight


def _queries(model: Transformer) -> Float[Tensor, "head"]:
    return _query_arrows(model) @ model.embedding.weight[0]


def _mean_change(
    of: Callable[[Transformer], Tensor], before: Sequence[Transformer], after: Sequence[Transformer]
) -> float:
    return fmean((of(new) - of(old)).abs().mean().item() for old, new in zip(before, after, strict=True))
