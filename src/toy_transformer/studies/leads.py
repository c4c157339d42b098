"""How soon the heads of many models come to look for one letter."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from toy_transformer.data import concatenate
from toy_transformer.experiments import TRAINING_DATA, VALIDATION_DATA, Experiment
from toy_transformer.model import Transformer
from toy_transformer.training import train


def mean_leads(experiment: Experiment, steps: Sequence[int], seeds: Iterable[int] = range(32)) -> dict[int, float]:
    """Say how far a head's best score for a, b and c leads over the next best, after each of these `steps`.

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
    leads = {}
    for step in steps:
        scores = torch.cat([run.model_at(step // between).trace(["abc"]).attention_scores[0, :, 0, 1:] for run in runs])
        best, next_best = scores.topk(2).values.T
        leads[step] = (best - next_best).mean().item()
    return leads
