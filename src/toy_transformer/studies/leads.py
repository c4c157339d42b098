"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from dataclasses import replace
from typing import NamedTuple

from toy_transformer.data import concatenate
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA
from toy_transformer.model import Transformer
from toy_transformer.training import TrainingConfig, train


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


def least_lead(model: Transformer) -> float:
    """Give the smallest lead that `looks_for` gives: a model is as good as its weakest head."""
    return min(lead for _, lead in looks_for(model))


class CoursePoint(NamedTuple):
    """A training after a `step`: the mean loss of a validation string, and what `least_lead` gives."""

    step: int
    loss: float
    smaller_lead: float


def course(
    model: Transformer, training_config: TrainingConfig = TrainingConfig(), num_steps: int = 80
) -> list[CoursePoint]:
    """Train a model, which stays as it is, with the usual strings, and tell every ten steps what has become of it.

    Raises `ValueError` for `num_steps` that are no multiple of ten, or are more than the `training_config` allows.
    """
    training = replace(TRAINING_DATA, epoch_size=10 * TRAINING_DATA.batch_size)  # an epoch of ten steps
    max_epochs = training_config.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    if num_steps not in range(10, 10 * max_epochs + 1, 10):
        raise ValueError(f"num_steps={num_steps!r}: expected a multiple of ten, of at most {10 * max_epochs}")
    rule = replace(training_config, max_epochs=max_epochs, first_stop_epoch=num_steps // 10, target_loss=1e9)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    (run,) = train([model], training.epochs(), validation, rule)
    return [
        CoursePoint(10 * epoch, loss / len(validation.counts), least_lead(run.model_at(epoch)))
        for epoch, loss in enumerate(run.validation_losses, start=1)
    ]
