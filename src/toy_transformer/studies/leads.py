"""Which letter a head looks for, and how soon the heads of many models come to it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from toy_transformer.data import concatenate
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA, Experiment
from toy_transformer.model import Transformer
from toy_transformer.training import train


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def mean_leads(experiment: Experiment, steps: Sequence[int], seeds: Iterable[int] = range(32)) -> dict[int, float]:
    """Say how large the leads of heads are, as `looks_for` gives them, after each of these `steps`.

    It is the mean over all heads of models of the `experiment`, one for each of the `seeds`, which train with the usual
    strings. Raises `ValueError` where no step is above 0, or one is below.
    """
    if min(steps, default=0) < 0 or max(steps, default=0) == 0:
        raise ValueError(f"steps={steps!r}: expected numbers of at least 0, one of them above")
    between = math.gcd(*steps)  # as many make an epoch, after each of which training keeps the weights
    training = replace(TRAINING_DATA, epoch_size=between * TRAINING_DATA.batch_size)
    rule = replace(experiment.training, first_stop_epoch=max(steps) // between, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in seeds]
    runs = train(models, training.epochs(), concatenate(next(VALIDATION_DATA.epochs())), rule)
    models_at = {step: [run.model_at(step // between) for run in runs] for step in steps}
    return {step: fmean(lead for model in each for _, lead in looks_for(model)) for step, each in models_at.items()}
