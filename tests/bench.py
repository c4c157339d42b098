"""How long training and the search for wrong strings take, and how long one model at a time would: `make bench`."""

import os
import platform
import time
from collections.abc import Callable
from statistics import median

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer import _gradients, data, experiments
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.horizon import shortest_wrong_string
from toy_transformer.studies import sweeps
from toy_transformer.studies.parallel import process_pool
from toy_transformer.training import TrainingConfig, _Stack, one_thread

CONFIGS = {
    "hidden_size 2": ModelConfig(),
    "hidden_size 16": ModelConfig(hidden_size=16),
    "hidden_size 16, 16 heads": ModelConfig(hidden_size=16, num_attention_heads=16),
}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, time_taken: float) -> None:
    print(f"{what:64} {time_taken:8.2f} s", flush=True)


def bench_data() -> None:
    epochs = experiments.TRAINING_DATA.epochs()
    report("draw 30 epochs of training strings", seconds(lambda: [next(epochs) for _ in range(30)]))
    for name in ("VALIDATION_DATA", "TEST_DATA"):
        epochs = getattr(experiments, name).epochs()
        report(f"draw the strings of {name}", seconds(lambda epochs=epochs: next(epochs)))


def bench_steps() -> None:
    """The gradient of one batch: autograd's and the one that is written out."""
    batch = next(experiments.TRAINING_DATA.epochs())[0]
    for name, config in CONFIGS.items():
        for num_models in (1, 8, 64):
            stack = _Stack([Transformer(config, seed) for seed in range(num_models)], TrainingConfig())

            def by_autograd(stack=stack):
                torch.autograd.grad(stack.losses(batch).sum(), [*stack.trainable.values()])

            def by_hand(stack=stack, config=config):
                _gradients.differentiate(stack.weights, config, batch)

            times = [seconds(lambda work=work: [work() for _ in range(50)]) / 50 for work in (by_autograd, by_hand)]
            autograd, hand = (1000 * t for t in times)
            label = f"gradient, {name}, {num_models} models"
            print(f"{label:52} autograd {autograd:6.2f} ms, by hand {hand:5.2f} ms: {autograd / hand:.1f} times")


def bench_experiments() -> None:
    for name in experiments.EXPERIMENTS:
        report(f"{name} (strings already drawn)", seconds(lambda name=name: experiments.run(name)))


def bench_all() -> float:
    def in_a_pool():
        with process_pool() as pool:
            sweeps.run_all(pool)

    data._draw_epoch.cache_clear()
    report("all nine, from nothing, in this process", seconds(sweeps.run_all))
    together = seconds(in_a_pool)
    report("all nine, from nothing, in two processes, their start included", together)
    return together


def bench_horizon() -> None:
    """The shortest wrong string of up to a million letters, of each trained model."""
    models = [run.model for runs in sweeps.run_all().values() for run in runs]
    times = [1000 * seconds(lambda model=model: shortest_wrong_string(model)) for model in models]
    print(f"horizon of {len(models)} models: median {median(times):.0f} ms, worst {max(times):.0f} ms")


def bench_one_at_a_time(together: float) -> None:
    """A textbook's loop: one model, tokens written out and padded, autograd; measured for one epoch of each experiment.

    Each experiment's epoch, and the test of one model, is measured once and counted as often as it would occur.
    """
    test_strings = data.concatenate(next(experiments.TEST_DATA.epochs()))
    total = 0.0
    for experiment in experiments.EXPERIMENTS.values():
        runs = experiments.train_and_test(experiment.data, [(experiment.model, s) for s in experiment.seeds])
        model = Transformer(experiment.model)
        batches = next(experiment.data.training.epochs())
        epoch = seconds(lambda model=model, batches=batches: train_padded(model, batches))
        test = seconds(lambda model=model: test_padded(model, test_strings))
        total += epoch * sum(len(run.validation_losses) for run in runs) + test * len(runs)
    report("the same, one model at a time over padded tokens (extrapolated)", total)
    print(f"ratio: {total / together:.0f}")


def train_padded(model: Transformer, batches: tuple[data.Batch, ...]) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    with one_thread():
        for batch in batches:
            logits = model(padded(model, batch.counts)).output_logits
            loss = binary_cross_entropy_with_logits(logits, batch.labels.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_padded(model: Transformer, strings: data.Batch) -> None:
    with torch.no_grad(), one_thread():
        for counts in strings.counts.split(experiments.TEST_DATA.batch_size):
            model(padded(model, counts))


def padded(model: Transformer, counts: torch.Tensor) -> torch.Tensor:
    strings = [model.tokenizer.short_form(row) for row in counts.tolist()]
    return torch.tensor(model.tokenizer.encode_batch(strings))


def main() -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )
    with one_thread():
        together = bench_all()
        data._draw_epoch.cache_clear()
        bench_data()
        bench_experiments()
        bench_steps()
        bench_horizon()
        bench_one_at_a_time(together)


if __name__ == "__main__":
    main()
