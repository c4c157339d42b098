"""Which letter a head looks for, and how clearly, in a trained model and while one trains."""

from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

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
    found = looks_for(model)
    leads = {letter: [lead if best == letter else 0.0 for best, lead in found] for letter in model.config.task.required}
    if missing := [letter for letter, of_heads in leads.items() if not any(of_heads)]:
        raise ValueError(f"no head looks for {' or '.join(missing)}")
    return [of_heads.index(max(of_heads)) for of_heads in leads.values()]


def describe_heads(model: Transformer) -> str:
    """Put into words what `looks_for` gives, such as "a 7.2, b 7.8"."""
    return ", ".join(f"{letter} {lead:.2g}" for letter, lead in looks_for(model))


class Overshoot(NamedTuple):
    """What heads do from the step on in which their lead first is plenty.

    `moves` says how far a number of the head's arrows of W_Q and W_K moves in each step, on average, in parts of the
    learning rate.
    """

    leads: Float[np.ndarray, "head step_or_start"]
    moves: Float[np.ndarray, "head step"]


@one_thread()
def overshoot(experiment: Experiment, num_after: int = 50, plenty: float = 4.0, num_steps: int = 350) -> Overshoot:
    """Follow each head of each training from where its lead first is `plenty`, for `num_after` steps more.

    Those heads count whose lead gets there soon enough for that in `num_steps` steps. Raises `ValueError` if none
    does, and for less than one of `num_steps`, or more than the training may have.
    """
    leads, moves = [], []
    for run in _train_by_step(experiment, num_steps):
        models = [run.model_at(step) for step in range(num_steps + 1)]
        of_heads = np.array([[lead for _, lead in looks_for(model)] for model in models])
        numbers = torch.stack([_numbers_of_scores(model) for model in models])
        sizes = numbers.diff(dim=0).abs().mean(dim=-1).numpy() / experiment.training.learning_rate
        for lead, size in zip(of_heads.T, sizes.T, strict=True):
            enough = lead[: num_steps + 1 - num_after] >= plenty
            if enough.any():
                start = enough.argmax()
                leads.append(lead[start:][: num_after + 1])
                moves.append(size[start:][:num_after])
    if not leads:
        raise ValueError(f"no head has a lead of {plenty} soon enough in {num_steps} steps")
    return Overshoot(np.array(leads), np.array(moves))


def _numbers_of_scores(model: Transformer) -> Float[Tensor, "head number"]:
    block = model.self_attention_block
    return torch.cat([block.W_Q.weight, block.W_K.weight], dim=1).detach()


def _train_by_step(experiment: Experiment, num_steps: int) -> list[TrainedModel]:
    """Train with one batch an epoch, so that the weights after each step are kept."""
    most = experiment.training.max_epochs * TRAINING_DATA.epoch_size // TRAINING_DATA.batch_size
    if num_steps not in range(1, most + 1):
        raise ValueError(f"{num_steps} steps: expected 1 to {most}")
    batches = list(islice(chain.from_iterable(TRAINING_DATA.epochs()), num_steps))
    rule = replace(experiment.training, max_epochs=most, first_stop_epoch=num_steps, target_loss=1e9)
    models = [Transformer(experiment.model, seed) for seed in experiment.seeds]
    return train(models, ([batch] for batch in batches), batches[0], rule)
