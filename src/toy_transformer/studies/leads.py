"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from toy_transformer.experiments import TRAINING_DATA, Experiment, retrain
from toy_transformer.model import Transformer
from toy_transformer.training import TrainedModel, one_thread


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


class Overshoot(NamedTuple):
    """The smallest lead of a head, and the sum of the sizes of the numbers of CLS, from where that lead is plenty."""

    leads: Float[np.ndarray, "training offset"]
    cls_sizes: Float[np.ndarray, "training offset"]


@one_thread()
def overshoot(experiment: Experiment, offsets: Sequence[int], plenty: float = 4.0, num_steps: int = 300) -> Overshoot:
    """Look at trainings at these `offsets` in steps, 0 or more, from where the smallest lead of a head is `plenty`.

    Those trainings count whose lead gets there soon enough that `num_steps` have all the `offsets`. Raises
    `ValueError` if no training counts, and for less than one of `num_steps`, or more than the training may have.
    """
    found = []
    for run in _train_steps(experiment, num_steps):
        reached = (n for n in range(num_steps - max(offsets) + 1) if _lead_and_size(run.model_at(n))[0] >= plenty)
        if (first := next(reached, None)) is not None:
            found.append([_lead_and_size(run.model_at(first + offset)) for offset in offsets])
    if not found:
        raise ValueError(f"no training of {num_steps} steps has a lead of {plenty} in time")
    return Overshoot(*np.moveaxis(np.array(found), -1, 0))


class StepSize(NamedTuple):
    """By how much a step of training changes a number of W_Q, and, by that, the query of CLS: means, without sign."""

    number_of_W_Q: float
    query: float


def first_step(experiment: Experiment) -> StepSize:
    """Say how large the first step of an experiment's trainings is."""
    starts, ends = zip(*((run.model_at(0), run.model_at(1)) for run in _train_steps(experiment, 1)), strict=True)
    moves = [_query_arrows(end) - _query_arrows(start) for start, end in zip(starts, ends, strict=True)]
    queries = [move @ start.embedding.weight[0] for move, start in zip(moves, starts, strict=True)]
    return StepSize(*(fmean(change.abs().mean().item() for change in changes) for changes in (moves, queries)))


def _train_steps(experiment: Experiment, num_steps: int) -> list[TrainedModel]:
    """Train with the usual strings; each step is an epoch, after which the weights are kept."""
    training = replace(TRAINING_DATA, epoch_size=TRAINING_DATA.batch_size)
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    return retrain([Transformer(experiment.model, seed) for seed in experiment.seeds], rule, training)


def _lead_and_size(model: Transformer) -> tuple[float, float]:
    return min(lead for _, lead in looks_for(model)), model.embedding.weight[0].abs().sum().item()


def _query_arrows(model: Transformer) -> Float[Tensor, "head hidden_size"]:
    return model.self_attention_block.W_Q.weight
