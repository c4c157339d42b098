"""Sweeps over many seeds: here, in a pool of processes, and on a cluster; with workers that die and work that fails."""

import os
import signal
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client, LocalCluster

from toy_transformer import experiments
from toy_transformer.data import VariableLengthStrings, concatenate
from toy_transformer.editing.hand_written import comparing
from toy_transformer.experiments import Data, Experiment
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.horizon import horizon
from toy_transformer.studies import sweeps
from toy_transformer.studies.parallel import process_pool
from toy_transformer.studies.sweeps import sweep
from toy_transformer.task import Task
from toy_transformer.training import TrainingConfig, train

SEEDS = range(3, 11)
FEW = {"data": Data(VariableLengthStrings(epoch_size=640)), "training_config": TrainingConfig(max_epochs=6)}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sweeps, "SEEDS_TOGETHER", 2)


@pytest.fixture(scope="module")
def expected() -> list:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "SEEDS_TOGETHER", 2)
        return sweep(ModelConfig(), SEEDS, **FEW)


@pytest.fixture(scope="module")
def pool():
    """For tests that leave it whole."""
    with process_pool() as pool:
        yield pool


@pytest.fixture(scope="module")
def cluster():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


class _Deadly(Executor):
    """Hands work on to another executor, and kills one of its workers when any piece is done."""

    def __init__(self, executor: Executor):
        self.executor, self.pid, self.alive = executor, executor.submit(os.getpid).result(), True

    def submit(self, function, /, *args, **kwargs) -> Future:
        future = self.executor.submit(function, *args, **kwargs)
        future.add_done_callback(self.kill)
        return future

    def kill(self, _) -> None:
        if self.alive:
            self.alive = False
            os.kill(self.pid, signal.SIGKILL)


def _rows_of_runs(config: ModelConfig, seeds) -> list:
    runs = experiments.train_and_test(
        FEW["data"], [(config, seed) for seed in seeds], training_config=FEW["training_config"]
    )
    return [
        (r.seed, r.false_positives, r.false_negatives, r.best_epoch, len(r.validation_losses), horizon(r.model))
        for r in runs
    ]


def test_rows_are_those_of_runs(expected):
    assert [row.seed for row in expected] == list(SEEDS)
    pairs = [row for start in range(3, 11, 2) for row in _rows_of_runs(ModelConfig(), range(start, start + 2))]
    assert [(*row[:5], row.horizon) for row in expected] == pairs
    assert len({row.validation_loss for row in expected}) == len(SEEDS)


def test_several_configurations_together(expected):
    """Those of one architecture share a stack, and each seed gets what it gets alone."""
    configs = {"2": ModelConfig(), "3": ModelConfig(hidden_size=3), "small": ModelConfig(embedding_init="linear_like")}
    few = {"data": FEW["data"], "training": FEW["training_config"]}
    rows = sweeps.sweep_each({name: Experiment(model=config, **few) for name, config in configs.items()}, SEEDS[:2])
    assert rows["2"] == expected[:2]
    for name in ("3", "small"):
        alone = sweep(configs[name], SEEDS[:2], **FEW)
        assert [row[:5] for row in rows[name]] == [row[:5] for row in alone]
    assert rows["small"] != rows["2"]


def test_horizons_can_be_left_out(expected):
    rows = sweep(ModelConfig(), SEEDS[:2], **FEW, horizons=False)
    assert rows == [row._replace(horizon=None) for row in expected[:2]]


def test_a_horizon_for_another_alphabet_but_not_with_norm():
    task = Task("abcd", "ab")
    few = FEW | {"data": Data(VariableLengthStrings(task, epoch_size=640))}
    (row,) = sweep(ModelConfig(task), [0], **few)
    (run,) = experiments.train_and_test(few["data"], [(ModelConfig(task), 0)], training_config=few["training_config"])
    assert row.horizon == horizon(run.model)
    (row,) = sweep(ModelConfig(norm="rms"), [0], **FEW)
    assert row.horizon is None


def test_pool(pool, expected):
    assert sweep(ModelConfig(), SEEDS, pool, **FEW) == expected


@pytest.mark.weekly
def test_cluster(cluster, expected):
    assert sweep(ModelConfig(), SEEDS, cluster.get_executor(), **FEW) == expected


def test_worker_of_a_pool_killed(expected):
    """While it works; and a pool that is broken before the work begins."""
    with process_pool() as pool:
        for executor in (_Deadly(pool), pool):
            with pytest.warns(UserWarning, match="what the executor leaves undone is done here"):
                assert sweep(ModelConfig(), SEEDS, executor, **FEW) == expected


@pytest.mark.weekly
def test_worker_of_a_cluster_killed(cluster, expected):
    deadly = _Deadly(cluster.get_executor())
    assert deadly.pid in cluster.run(os.getpid).values()
    assert sweep(ModelConfig(), SEEDS, deadly, **FEW) == expected
    assert deadly.pid not in cluster.run(os.getpid).values()


def test_an_interrupt_leaves_the_pool_alive(pool):
    """Interrupting a cell sends SIGINT to the kernel and to all its children."""
    os.kill(pool.submit(os.getpid).result(), signal.SIGINT)
    assert len(sweep(ModelConfig(), [1], pool, **FEW)) == 1


@pytest.mark.parametrize("with_pool", [False, True])
def test_failing_work_names_its_seeds(request, with_pool):
    executor = request.getfixturevalue("pool") if with_pool else None
    seeds = [5, 6, 7, 2**64]  # torch refuses the last one
    with pytest.raises(RuntimeError, match=r"training of models, seeds \[7, 18446744073709551616\] failed: Overflow"):
        sweep(ModelConfig(), seeds, executor, **FEW)


HEADS = [("b", 5.0), ("b", 6.0)]


def test_outcomes_are_those_of_the_rows():
    wrong = [(0, 0, 300), (0, 0, 9000), (0, 1, 190), (6, 0, 66), (999, 5, 20), (1443, 0, 0), (1443, 3, 0)]
    rows = [sweeps.SweepRow(seed, *errors, 1, 5, 0.1, HEADS, length) for seed, (*errors, length) in enumerate(wrong)]
    counts = {"clean": 2, "at 0": 2, "other errors": 3}
    assert sweeps.outcomes(rows) == {outcome: sweeps.share(count, 7) for outcome, count in counts.items()}
    assert sweeps.median_lead(rows) == 5.5
    assert rows[0].letters == "b" and rows[0]._replace(heads=[("b", 5.0), ("a", 6.0)]).letters == "ab"


@pytest.mark.parametrize("seeds", [[], [1, 2, 1]])
def test_bad_seeds(seeds):
    with pytest.raises(ValueError, match="expected at least one, and none twice"):
        sweep(ModelConfig(), seeds)


def test_progress_is_shown(capfd):
    sweep(ModelConfig(), [1, 2, 3], **FEW)
    assert "3/3" in capfd.readouterr().err


def test_a_share_and_its_interval():
    """Wilson's interval, from his formula."""
    half = sweeps.share(2, 4)
    z = 1.959964
    reach = z * (0.25 / 4 + z**2 / 64) ** 0.5 / (1 + z**2 / 4)
    assert (half.low, half.high) == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-6)
    assert str(half) == "2 of 4 (15% to 85%)"


def _overlap(one: sweeps.Share, other: sweeps.Share) -> bool:
    return one.low < other.high and other.low < one.high


def _summary(rows: list[sweeps.SweepRow]) -> dict[str, sweeps.Share]:
    reached = sum(row.horizon >= 10_000 for row in rows)
    return sweeps.outcomes(rows) | {"reach 10,000": sweeps.share(reached, len(rows))}


@pytest.mark.weekly
def test_which_ideas_help(monkeypatch):
    """What notebook 06 says of its 48 seeds, with room for a few chaotic ones."""
    monkeypatch.setattr(sweeps, "SEEDS_TOGETHER", 96)
    rows = sweeps.sweep_each(experiments.IDEAS, range(48))
    table = {name: _summary(each) for name, each in rows.items()}
    for row in (row for each in rows.values() for row in each):
        assert (row.horizon == 0) == (row.false_positives >= 1000)  # yes to nearly all that have one certain letter
    shown = ("all_initializations", "increased_dimensionality", "16 heads", "no weight decay")
    assert all(len(row.letters) == 1 for name in shown for row in rows[name] if row.horizon == 0)
    others = [row for each in rows.values() for row in each if row.errors > 0 and row.horizon > 0]
    assert sum(row.false_negatives > row.false_positives for row in others) > 0.9 * len(others)
    clean = {name: row["clean"].count for name, row in table.items()}
    reached = {name: row["reach 10,000"] for name, row in table.items()}
    horizons = {name: np.median([row.horizon for row in each]) for name, each in rows.items()}
    one_letter = {name: row["at 0"].count for name, row in table.items()}
    plain, sixteen = "all_initializations", "increased_dimensionality"
    assert max(clean[plain], clean["attend_cls"], clean["all_fixed_length_sequences"]) < 10
    assert min(clean[sixteen], clean["no weight decay"]) > 33
    assert horizons[sixteen] > 20 * horizons[plain] and horizons["no weight decay"] > 10 * horizons[sixteen]
    assert reached["no weight decay"].low > reached[sixteen].high
    leads = {name: sweeps.median_lead(each[:8]) for name, each in rows.items()}
    assert abs(leads[sixteen] - 10) < 1 and abs(leads["no weight decay"] - 12) < 1
    perfect = [row.horizon for row in rows["no weight decay"] if row.errors == 0]
    assert max(perfect) > 2000 * min(perfect)
    assert table["default_embeddings_initialization"]["other errors"].count == 0
    for usual, ideas in (
        (plain, ["attend_cls", "all_fixed_length_sequences"]),
        (sixteen, ["lower_magnitude_initializations", "default_embeddings_initialization"]),
    ):
        for kind in ("clean", "other errors", "at 0", "reach 10,000"):
            assert all(_overlap(table[usual][kind], table[name][kind]) for name in ideas)
    assert one_letter["increased_num_attention_heads"] == one_letter["16 heads"] == 0
    assert table[sixteen]["at 0"].low > table["16 heads"]["at 0"].high
    assert table[sixteen]["clean"].high < table["16 heads"]["clean"].low
    assert table[sixteen]["other errors"].high < table[plain]["other errors"].low
    assert _overlap(table[sixteen]["at 0"], table[plain]["at 0"])
    assert reached["16 heads"].low > reached[sixteen].high
    assert table["lower_magnitude_initializations"]["clean"].low > table[plain]["clean"].high
    assert min(clean["increased_num_attention_heads"], clean["16 heads"]) > 44


@pytest.mark.weekly
def test_large_steps_and_momentum_help_in_notebook_6(monkeypatch):
    usual, sixteen = (experiments.IDEAS[name] for name in ("all_initializations", "increased_dimensionality"))
    large = replace(usual, training=TrainingConfig(learning_rate=0.025, final_learning_rate=0.0125))
    no_momentum = replace(sixteen, training=TrainingConfig(beta1=0.0))
    kinds = {"usual": usual, "large": large, "sixteen": sixteen, "no momentum": no_momentum}
    monkeypatch.setattr(sweeps, "SEEDS_TOGETHER", 96)
    rows = sweeps.sweep_each(kinds, range(48))
    missing = {name: _summary(each)["other errors"] for name, each in rows.items()}
    for few, many in (("large", "usual"), ("sixteen", "large"), ("sixteen", "no momentum")):
        assert missing[few].high < missing[many].low
    at_0 = [_summary(each)["at 0"] for each in rows.values()]
    assert max(share.low for share in at_0) < min(share.high for share in at_0)
    leads = {name: sweeps.median_lead(each[:8]) for name, each in rows.items()}
    order = ("usual", "no momentum", "large", "sixteen")
    assert sorted(order, key=leads.__getitem__) == sorted(order, key=lambda name: -missing[name].count) == [*order]


@pytest.mark.weekly
def test_comparing_in_notebook_8():
    starts, validation = [Transformer(seed=seed) for seed in range(64)], experiments.VALIDATION_DATA.epochs()
    kinds = [starts, *([comparing(start, factor) for start in starts] for factor in (1, 3))]
    strings, shares = concatenate(next(validation)), []
    for models in kinds:
        trained = train(models, experiments.TRAINING_DATA.epochs(), strings)
        shares.append(sweeps.share(sum(horizon(run.model) >= 50 for run in trained), 64))
    with_matrices, small, large = shares
    assert small.count == 0 and small.high < min(with_matrices.low, large.low)
    assert large.high > with_matrices.low and with_matrices.high > large.low
    assert horizon(trained[14].model) == 10**6


def test_all_experiments_in_a_pool(pool, monkeypatch):
    monkeypatch.setattr(
        experiments,
        "EXPERIMENTS",
        {
            "small": Experiment([1, 2], data=FEW["data"]),
            "other": Experiment([0], ModelConfig(hidden_size=3), FEW["data"]),
        },
    )
    assert sweeps.run_all(pool)["small"][1].wrong_strings == experiments.run("small")[1].wrong_strings
