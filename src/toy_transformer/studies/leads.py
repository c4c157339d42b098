"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np
from jaxtyping import Float

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


@one_thread()
def overshoot(
    experiment: Experiment, offsets: Sequence[int], plenty: float = 4.0, num_steps: int = 300
) -> Float[np.ndarray, "training offset"]:
    """Give the smallest lead of a head at these `offsets` in steps, 0 or more, from where it first is `plenty`.

    Those trainings count whose lead gets there soon enough that `num_steps` have all the `offsets`. Raises
    `ValueError` if no training counts, and for less than one of `num_steps`, or more than the training may have.
    """
    found = []
    for run in _train_by_step(experiment, num_steps):
        starts = range(num_steps - max(offsets) + 1)
        first = next((n for n in starts if _smallest_lead(run.model_at(n)) >= plenty), None)
        if first is not None:
            found.append([_smallest_lead(run.model_at(first + offset)) for offset in offsets])
    if not found:
        raise ValueError(f"no training of {num_steps} steps has a lead of {plenty} in time")
    return np.array(found)


def _train_by_step(experiment: Experiment, num_steps: int) -> list[TrainedModel]:
    """Train with one batch an epoch, so that the weights after each step are kept."""
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // TRAINING_DATA.batch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    batches = list(islice(chain.from_iterable(TRAINING_DATA.epochs()), num_steps))
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in experiment.seeds]
    return train(models, ([batch] for batch in batches), batches[0], rule)


def _smallest_lead(model: Transformer) -> float:
    return min(lead for _, lead in looks_for(model))
