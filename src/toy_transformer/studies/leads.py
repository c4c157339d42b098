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


def least_lead(model: Transformer) -> float:
    """Give the smallest lead that `looks_for` gives: a model is as good as its weakest head."""
    return min(lead for _, lead in looks_for(model))


def false_finds(model: Transformer) -> list[float]:
    """Say, for each head, how much of its result for the letter that `looks_for` names is there without that letter.

    The string has one of each other letter. 1 is as much as with the letter, and 0 what the first other letter says
    alone; a head for which these two are the same has nan, or is infinite.
    """
    letters, shares = model.tokenizer.letters, []
    for head, (letter, _) in enumerate(looks_for(model)):
        others = letters.replace(letter, "")
        found, without, nothing = model.trace([letter, others, others[0]]).means[:, head, 0, 0]
        shares.append(((without - nothing) / (found - nothing)).item())
    return shares


class CoursePoint(NamedTuple):
    """A training after a `step`: mean loss of a validation string, least lead of a head, mean move of W_Q's numbers.

    The move is that of the last step, without its sign.
    """

    step: int
    loss: float
    smaller_lead: float
    move: float


def course(
    model: Transformer, training_config: TrainingConfig = TrainingConfig(), num_steps: int = 80
) -> list[CoursePoint]:
    """Train a model, which stays as it is, with the usual strings, and tell every ten steps what has become of it.

    The leads are those of `looks_for`. Raises `ValueError` for `num_steps` that are no multiple of ten, or are more
    than the `training_config` allows.
    """
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)  # an epoch of one step
    max_epochs = training_config.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    if num_steps not in range(10, max_epochs + 1, 10):
        raise ValueError(f"num_steps={num_steps!r}: expected a multiple of ten, of at most {max_epochs}")
    rule = replace(training_config, max_epochs=max_epochs, first_stop_epoch=num_steps, target_loss=1e9)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    (run,) = train([model], training.epochs(), validation, rule)
    points = []
    for step in range(10, num_steps + 1, 10):
        before, after = run.model_at(step - 1), run.model_at(step)
        move = (after.self_attention_block.W_Q.weight - before.self_attention_block.W_Q.weight).abs().mean().item()
        loss = run.validation_losses[step - 1] / len(validation.counts)
        points.append(CoursePoint(step, loss, least_lead(after), move))
    return points
