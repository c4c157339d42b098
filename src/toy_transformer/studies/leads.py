"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from toy_transformer._gradients import differentiate
from toy_transformer.data import Batch
from toy_transformer.experiments import TRAINING_DATA, Experiment
from toy_transformer.model import Transformer
from toy_transformer.training import TrainedModel, one_thread, train


def looks_for(model: Transformer) -> list[tuple[str, float]]:
    """Give, for each head, the letter with the best score, and by how much it leads over the next best."""
    letters = model.tokenizer.letters
    best, found = model.trace([letters]).attention_scores[0, :, 0, 1:].topk(2)
    return [(letters[letter], (high - low).item()) for (letter, _), (high, low) in zip(found, best, strict=True)]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


class Overshoot(NamedTuple):
    """What becomes of the smallest lead of a head around the step in which it first is plenty.

    `gradients` are the mean sizes of those of W_Q in that head.
    """

    leads: Float[np.ndarray, "training offset"]
    gradients: Float[np.ndarray, "training offset"]


@one_thread()
def overshoot(experiment: Experiment, offsets: Sequence[int], plenty: float = 4.0, num_steps: int = 300) -> Overshoot:
    """Look at trainings at these `offsets` in steps from where the smallest lead of a head first is `plenty`.

    Those trainings count whose lead gets there when `num_steps` have all the `offsets`. Raises `ValueError` if no
    training counts, and for less than one of `num_steps`, or more than the training may have.
    """
    (runs, batches), found = _train_by_step(experiment, num_steps), []
    for run in runs:
        starts = range(max(0, -min(offsets)), num_steps - max(offsets) + 1)
        first = next((n for n in starts if min(_leads(run.model_at(n))) >= plenty), None)
        if first is not None:
            head, steps = np.argmin(_leads(run.model_at(first))), [first + offset for offset in offsets]
            found.append([(min(_leads(run.model_at(n))), _gradient(run, n, batches[n], head)) for n in steps])
    if not found:
        raise ValueError(f"no training of {num_steps} steps has a lead of {plenty} in time")
    return Overshoot(*np.moveaxis(np.array(found), -1, 0))


def _train_by_step(experiment: Experiment, num_steps: int) -> tuple[list[TrainedModel], list[Batch]]:
    """Train with one batch an epoch, so that all weights are kept; give the batches, too, and one more."""
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // TRAINING_DATA.batch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    batches = list(islice(chain.from_iterable(TRAINING_DATA.epochs()), num_steps + 1))
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in experiment.seeds]
    return train(models, ([batch] for batch in batches), batches[0], rule), batches


def _leads(model: Transformer) -> list[float]:
    return [lead for _, lead in looks_for(model)]


def _gradient(run: TrainedModel, step: int, batch: Batch, head: int) -> float:
    weights = {name: weight[None] for name, weight in run.weights[step].items()}
    _, gradients = differentiate(weights, run.config, batch)
    return gradients["self_attention_block.W_Q.weight"][0, head].abs().mean().item()
