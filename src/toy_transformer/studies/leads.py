"""Which letter a head looks for, how clearly, and how soon the heads of many models come to it."""

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

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


def learning(experiment: Experiment, seeds: Iterable[int] = range(32)) -> dict[str, float]:
    """Say when models look for all letters that they must find, when their loss is small, and the smaller lead.

    Models of the `experiment`, one for each of the `seeds`, train with the usual strings for 300 steps. Given are the
    medians of those whose loss of a validation string falls below 0.01: the step from which on, up to there, their
    heads look for all required letters; the step of that loss; and there the least lead of a head, as `looks_for` gives
    it. All are looked at every ten steps. Raises `ValueError` where no loss gets small.
    """
    training = replace(TRAINING_DATA, epoch_size=10 * TRAINING_DATA.batch_size)  # an epoch of ten steps
    max_epochs = experiment.training.max_epochs * TRAINING_DATA.epoch_size // training.epoch_size
    rule = replace(experiment.training, max_epochs=max_epochs, first_stop_epoch=30, target_loss=1e9)
    validation = concatenate(next(VALIDATION_DATA.epochs()))
    models, required = [Transformer(experiment.model, seed) for seed in seeds], set(experiment.model.task.required)
    learnt = []
    for run in train(models, training.epochs(), validation, rule):
        small = [loss / len(validation.counts) < 0.01 for loss in run.validation_losses]
        if any(small):
            end = small.index(True) + 1
            found = [looks_for(run.model_at(epoch)) for epoch in range(end + 1)]
            missing = [epoch for epoch, each in enumerate(found) if not {letter for letter, _ in each} >= required]
            learnt.append((10 * (max(missing, default=-1) + 1), 10 * end, min(lead for _, lead in found[end])))
    if not learnt:
        raise ValueError("no loss falls below 0.01 within 300 steps")
    names = ("both letters", "small loss", "smaller lead")
    return dict(zip(names, map(median, zip(*learnt, strict=True)), strict=True))
