"""Which letter a head looks for, how clearly, and how soon the heads of many models come to it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, median

from toy_transformer.data import concatenate
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA, Experiment
from toy_transformer.model import Transformer
from toy_transformer.training import train


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def false_finds(model: Transformer) -> list[float]:
    """Say, for each head, how much of its result for the letter that `looks_for` names is there without that letter.

    The string has one of each other letter. 1 is as much as with the letter, and 0 what the other letter says alone
    whose result is farthest from that.
    """
    letters, parts = model.tokenizer.letters, []
    for head, (letter, _) in enumerate(looks_for(model)):
        others = letters.replace(letter, "")
        found, without, *alone = model.trace([letter, others, *others]).means[:, head, 0, 0].tolist()
        nothing = max(alone, key=lambda result: abs(result - found))
        parts.append((without - nothing) / (found - nothing))
    return parts


def leads_and_losses(
    experiment: Experiment, steps: Sequence[int], seeds: Iterable[int] = range(32)
) -> dict[tuple[str, int], float]:
    """Say, after each of these `steps`, the lead, the loss, and how many models look for both letters.

    Models of the `experiment`, one for each of the `seeds`, train with the usual strings. The lead is the mean over all
    their heads, as `looks_for` gives it; the loss is that of a validation string, in the median of models. Raises
    `ValueError` where there is no step, or one below 1.
    """
    if min(steps, default=0) < 1:
        raise ValueError(f"steps={steps!r}: expected numbers of at least 1")
    between = math.gcd(*steps)  # as many make an epoch, after each of which training keeps the weights
    training = replace(TRAINING_DATA, epoch_size=between * TRAINING_DATA.batch_size)
    max_epochs = experiment.training.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    rule = replace(experiment.training, max_epochs=max_epochs, first_stop_epoch=max(steps) // between, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in seeds]
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    runs = train(models, training.epochs(), validation, rule)
    grown, required = {}, set(experiment.model.task.required)
    for step in steps:
        found = [looks_for(run.model_at(step // between)) for run in runs]
        losses = [run.validation_losses[step // between - 1] for run in runs]
        grown["lead", step] = fmean(lead for each in found for _, lead in each)
        grown["loss", step] = median(losses) / len(validation.counts)
        grown["both letters", step] = sum({letter for letter, _ in each} >= required for each in found)
    return grown
