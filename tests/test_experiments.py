import dataclasses

import pytest

from toy_transformer import experiments
from toy_transformer.data import FixedLengthStrings, VariableLengthStrings, from_counts
from toy_transformer.experiments import Data, Experiment
from toy_transformer.model import ModelConfig
from toy_transformer.studies import sweeps
from toy_transformer.task import Task, contains_all
from toy_transformer.training import train


def test_unknown_experiment():
    with pytest.raises(ValueError, match="experiment 'nonsense': expected one of walkthrough"):
        experiments.run("nonsense")


def test_an_experiment_is_one_entry(monkeypatch):
    data = Data(VariableLengthStrings(epoch_size=640))
    entry = experiments.Experiment((0, 5), ModelConfig(hidden_size=3), data)
    monkeypatch.setitem(experiments.EXPERIMENTS, "mine", entry)
    runs = experiments.run("mine")
    assert [run.seed for run in runs] == [0, 5]
    assert all(run.config == entry.model for run in runs)
    for run in runs:
        _check_test_results(run)


def test_an_experiment_with_another_task(monkeypatch):
    """Trained, stopped and tested on the question that its model is configured for."""
    small = Data(*(dataclasses.replace(strings, epoch_size=1280) for strings in Data()))
    config = ModelConfig(Task("abcd", "bd"), hidden_size=16)
    entry = Experiment([1], config, small)
    monkeypatch.setitem(experiments.EXPERIMENTS, "mine", entry)
    (run,) = experiments.run("mine")
    (true_negatives, false_positives), (false_negatives, true_positives) = run.confusion_matrix
    assert true_negatives > 10 * false_positives and true_positives > 2 * false_negatives
    for string in run.wrong_strings:
        assert contains_all(string, "bd") != (run.model.trace([string]).output_logits.item() > 0)


def test_results_are_those_of_plain_counting(generalization_errors):
    assert generalization_errors.wrong_strings
    _check_test_results(generalization_errors)


def test_all_runs_are_those_of_each_experiment(monkeypatch):
    """Side by side, each model once, and yet what `run` gives."""
    small = Data(VariableLengthStrings(epoch_size=640))
    monkeypatch.setattr(
        experiments,
        "EXPERIMENTS",
        {
            "all": Experiment([0, 1, 2], data=small),
            "one of them": Experiment([1], data=small),
            "started otherwise": Experiment([1], ModelConfig(embedding_init="linear_like"), small),
            "larger": Experiment([1, 0], ModelConfig(hidden_size=3), small),
            "other strings": Experiment([1], data=Data(FixedLengthStrings(length=4))),
        },
    )
    trained = []
    monkeypatch.setattr(
        experiments, "train", lambda models, *args, **kw: trained.append(models) or train(models, *args, **kw)
    )
    runs = sweeps.run_all()
    assert sorted(map(len, trained)) == [1, 2, 4]
    for name, experiment in experiments.EXPERIMENTS.items():
        assert [(run.config, run.seed) for run in runs[name]] == [(experiment.model, seed) for seed in experiment.seeds]
        for run, alone in zip(runs[name], experiments.run(name), strict=True):
            assert run.validation_losses == pytest.approx(alone.validation_losses, rel=1e-3)
            assert run.wrong_strings


def _check_test_results(run):
    model, table, wrong = run.model, [[0, 0], [0, 0]], []
    for batch in next(experiments.TEST_DATA.epochs()):
        logits = model(*from_counts(batch.counts)).output_logits.tolist()
        for row, logit in zip(batch.counts.tolist(), logits, strict=True):
            string = model.tokenizer.short_form(row)
            label = contains_all(string)
            table[label][logit > 0] += 1
            if label != (logit > 0):
                wrong.append(string)
    assert run.confusion_matrix == table
    assert [run.false_positives, run.false_negatives] == [table[0][1], table[1][0]]
    assert run.wrong_strings == sorted(wrong)
