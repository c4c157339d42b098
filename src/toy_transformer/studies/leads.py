"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

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


def leading_heads(model: Transformer) -> list[int]:
    """Give, for each required letter, which of the heads that look for it has the largest lead.

    Raises `ValueError` if none looks for one of them.
    """
    found, heads = looks_for(model), []
    for letter in model.config.task.required:
        leads = {head: lead for head, (best, lead) in enumerate(found) if best == letter}
        if not leads:
            raise ValueError(f"no head looks for {letter}")
        heads.append(max(leads, key=leads.__getitem__))
    return heads


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


@one_thread()
def overshoot(
    experiment: Experiment, num_after: int = 20, plenty: float = 4.0, num_steps: int = 300
) -> Float[np.ndarray, "head"]:
    """Give by how much each head's lead rises in the `num_after` steps after it has got to `plenty`.

    Of all trainings, those heads count whose lead gets there soon enough for that in `num_steps` steps. Raises
    `ValueError` if none does, and for less than one of `num_steps`, or more than the training may have.
    """
    rises = []
    for run in _train_by_step(experiment, num_steps):
        leads = np.array([[lead for _, lead in looks_for(run.model_at(step))] for step in range(num_steps + 1)])
        for of_head in leads.T:
            there = of_head[: num_steps + 1 - num_after] >= plenty
            if there.any():
                rises.append(of_head[there.argmax() + num_after] - of_head[there.argmax()])
    if not rises:
        raise ValueError(f"no head has a lead of {plenty} soon enough in {num_steps} steps")
    return np.array(rises)


def _train_by_step(experiment: Experiment, num_steps: int) -> list[TrainedModel]:
    """Train an experiment for `num_steps` steps, as epochs of one batch, so that the weights after each are kept."""
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // TRAINING_DATA.batch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    batches = list(islice(chain.from_iterable(TRAINING_DATA.epochs()), num_steps))
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in experiment.seeds]
    return train(models, ([batch] for batch in batches), batches[0], rule)
