"""The explorer's logic in node: what Python computes is handed over, and the tests in `js/` compare."""

import json
import math
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import torch
from npm import NODE, NPM, ROOT
from scipy.stats import mannwhitneyu
from torch.nn.functional import binary_cross_entropy_with_logits

from toy_transformer.data import Batch, VariableLengthStrings, concatenate, from_counts
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.experiments import TEST_DATA, VALIDATION_DATA
from toy_transformer.explorer import explore
from toy_transformer.explorer.code import PREFIX_BEFORE, checksum
from toy_transformer.model import ModelConfig, Trace, Transformer
from toy_transformer.pictures.maps import CORNERS
from toy_transformer.proofs.all_lengths import NotCertified, certify_all_lengths
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, Undecidable, Unfinished, WrongAbout, shortest_wrong_string
from toy_transformer.studies.sweeps import sweep
from toy_transformer.task import Task
from toy_transformer.training import TrainingConfig, _Stack
from toy_transformer.weights import build, numbers_of

TESTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))
BUNDLE = ROOT / "src" / "toy_transformer" / "explorer" / "bundle.js"
LIKE = numbers_of(Transformer())
SHAPES = {name: np.shape(of) for name, of in LIKE.items()}
QUESTIONS = ["a", "b", "c", "ab", "ac", "bc", "abc"]
FEW = 300
FUNCTION = r"^( *)(?:export )?(?:const \w+ = .*=>|function|(?:get )?\w+\(.*\)) ?.*\{\n(.*\n)*?\1\}"
"""A function of JavaScript that has its own lines, as these modules are laid out."""


def quantities(trace: Trace) -> dict[str, list[float]]:
    """By the names that they have in JavaScript; a score of −∞ is None there."""
    tensors = {
        "query": trace.Q[0, :, 0],
        "keys": trace.K[0],
        "values": trace.V[0],
        "scores": trace.attention_scores[0, :, 0],
        "attentionWeights": trace.attention_weights[0, :, 0],
        "result": trace.means[0, :, 0],
        "path": trace.cls_path[0],
        "logit": trace.output_logits,
    }
    return {
        name: [x if math.isfinite(x) else None for x in tensor.flatten().tolist()] for name, tensor in tensors.items()
    }


def sizes(model: Transformer, trace: Trace) -> dict[str, float]:
    """How large the terms may be that each quantity is the sum of; rounding is in parts of that."""
    block, (cls, *_) = model.self_attention_block, model.embedding.weight.abs()
    tokens = model.embedding.weight.abs().max(dim=0).values
    query = (block.W_Q.weight.abs() @ cls).max()
    keys, values = ((map_.weight.abs() @ tokens).max() for map_ in (block.W_K, block.W_V))
    factor = trace.multiplicity.sum().log().clamp(min=1) * max(model.config.length_scaling, 1)
    scores = 1 + factor * query * keys + trace.multiplicity.sum().log()
    result = scores * values  # a weight is off by rounding times its score
    state = cls.max() + block.W_O.weight.abs().sum(dim=1).max() * result
    path = state * (1 + block.W_out.weight.abs().sum() * block.W_in.weight.abs().sum())
    found = dict(query=query, keys=keys, values=values, scores=scores, attentionWeights=scores, result=result)
    found |= dict(path=path, logit=path * model.classifier.weight.abs().sum())
    return {name: float(size) for name, size in found.items()}


def random_model(rng: np.random.Generator) -> dict:
    """With random counts and κ, and with or without attention to CLS."""
    config = ModelConfig(attend_cls=bool(rng.integers(2)), length_scaling=float(rng.choice([0, 0.5, 2])))
    scale = rng.choice([0.3, 1, 3])
    model = build({name: scale * rng.normal(size=shape) for name, shape in SHAPES.items()}, config, torch.float64)
    counts = (rng.integers(0, 2, size=3) * 10 ** rng.integers(0, 7, size=3)).tolist()
    counts = counts if any(counts) else [1, 0, 0]
    with torch.no_grad():
        trace = model(*from_counts(torch.tensor([counts]), dtype=torch.float64))
    return {
        "weights": numbers_of(model),
        "counts": counts,
        "options": {"lengthScaling": config.length_scaling, "attendCls": config.attend_cls},
        "expected": quantities(trace),
        "sizes": sizes(model, trace),
    }


def setting_of(model: Transformer) -> dict:
    config = model.config
    return {
        "required": config.task.required,
        "lengthScaling": config.length_scaling,
        "attendCls": config.attend_cls,
    }


def horizon_of(model: Transformer, what: str = "") -> dict:
    """`rightUpTo` is None where Python does not decide, or gives up."""
    found = {"what": what, "weights": numbers_of(model), "setting": setting_of(model), "wrong": None, "rightUpTo": None}
    try:
        wrong = shortest_wrong_string(model, max_boxes=20_000)
    except (Undecidable, Unfinished):
        return found
    return found | {
        "wrong": wrong and wrong.string,
        "rightUpTo": wrong.length - 1 if wrong else SEARCHED_LENGTH,
    }


def edited_models(trained: list[Transformer], number: int) -> Iterator[Transformer]:
    """Trained models whose numbers have been moved, more or less, and now and then random ones."""
    rng = np.random.default_rng(1)
    for i in range(number):
        model = trained[i % len(trained)]
        numbers, scale = numbers_of(model), rng.choice([0, 0.01, 0.1, 1])
        noisy = {
            name: np.array(of) * (i % 7 > 0) + scale * rng.normal(size=np.shape(of)) for name, of in numbers.items()
        }
        scaling = float(rng.choice([0, 0, 0.3, 2]))
        task = Task("abc", str(rng.choice(QUESTIONS)) if i % 3 == 0 else model.config.task.required)
        yield build(noisy, replace(model.config, task=task, length_scaling=scaling))


def adversaries() -> Iterator[tuple[str, Transformer]]:
    """Models that are hard to decide: equal scores, nearly equal ones, huge ones, zeros, products that underflow."""
    yield "exact", build(EXACT)
    for name, scaling, attend_cls in product(EXACT, (0.0, 1.0), (False, True)):
        config = ModelConfig(length_scaling=scaling, attend_cls=attend_cls)
        yield f"exact, {name} 0", build(EXACT | {name: np.zeros_like(EXACT[name], float)}, config)
    rng = np.random.default_rng(2)
    for scale in (1e-170, 1e-100, 1e-30, 1e-7, 1e3, 1e7, 1e60):
        numbers = {name: scale * rng.normal(size=shape) for name, shape in SHAPES.items()}
        yield f"numbers of {scale}", build(numbers, dtype=torch.float64)
    for gap in (0, 1e-15, 1e-9, 1e-5, 1e-2):
        numbers = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
        close = {"b": numbers["a"] + gap * rng.normal(size=2)}
        yield f"a and b {gap} apart", build(numbers | close, dtype=torch.float64)
        yield (
            f"exact, off by {gap}",
            build({n: np.array(x) + gap * rng.normal() for n, x in EXACT.items()}, dtype=torch.float64),
        )


def proof_of(model: Transformer) -> dict:
    try:
        from_length = certify_all_lengths(model).from_length
    except (NotCertified, Undecidable, Unfinished, WrongAbout):
        from_length = None
    return {"weights": numbers_of(model), "setting": setting_of(model), "from": from_length}


def plain(batch: Batch) -> dict:
    return {"counts": batch.counts.tolist(), "labels": [bool(label) for label in batch.labels]}


def loss_of(model: Transformer, batch: Batch) -> torch.Tensor:
    logits = model(*from_counts(batch.counts, torch.float64), 1).output_logits
    return binary_cross_entropy_with_logits(logits, batch.labels.double())


def gradients() -> Iterator[dict]:
    rng = np.random.default_rng(3)
    for i in range(21):
        config = ModelConfig(
            Task("abc", QUESTIONS[i % 6]), attend_cls=bool(i % 2), length_scaling=(0.0, 0.5, 2.0)[i % 3]
        )
        numbers = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
        model = build(numbers, config, torch.float64).requires_grad_()
        (batch,) = next(VariableLengthStrings(config.task, epoch_size=64, seed=i).epochs())
        loss = loss_of(model, batch)
        loss.backward()
        weights = numbers_of(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.grad)
        found = {"loss": loss.item(), "gradient": numbers_of(model)}
        yield {"weights": weights, "batch": plain(batch), "setting": setting_of(model)} | found


def trained_in_python(steps: int = 300, steps_an_epoch: int = 50) -> dict:
    rates, model = TrainingConfig(), Transformer(seed=1).double()
    begun, stack = numbers_of(model), _Stack([model], rates)
    batches = [batch for epoch in islice(VariableLengthStrings().epochs(), 2) for batch in epoch][:steps]
    for step, batch in enumerate(batches, start=1):
        stack.step(batch)
        if step % steps_an_epoch == 0:
            stack.lower_rate()
    model.load_state_dict({name: weight[0] for name, weight in stack.weights.items()})
    return {
        "weights": begun,
        "batches": [plain(batch) for batch in batches],
        "setting": setting_of(model),
        "rates": {"learningRate": rates.learning_rate, "weightDecay": rates.weight_decay},
        "stepsAnEpoch": steps_an_epoch,
        "final": numbers_of(model),
    }


def drawn() -> dict:
    shares = [
        {"required": required, "batchSize": size, "shares": VariableLengthStrings(task, batch_size=size)._budgets()}
        for required, size in product(QUESTIONS[:-1], (8, 64, 101))
        for task in [Task("abc", required)]
    ]
    distributions = []
    for required, max_length, alpha in [("ab", 10, 1.0), ("b", 10, 1.0), ("ac", 50, 0.5)]:
        strings = VariableLengthStrings(Task("abc", required), max_length, alpha, epoch_size=40_000)
        counts = concatenate(next(strings.epochs())).counts.tolist()
        setting = {"required": required, "batchSize": 64, "maxLength": max_length, "alpha": alpha}
        frequencies = Counter(",".join(map(str, each)) for each in counts)
        distributions.append({"setting": setting, "numStrings": len(counts), "frequencies": frequencies})
    return {"shares": shares, "distributions": distributions}


def codes(model: Transformer) -> Iterator[dict]:
    explorer = explore({"x.y é ~(*)": model, "b": model}, ["ab", "c{3000}"])
    for required, scaling in [("ab", 0.0), ("c", 2.5)]:
        explorer.required, explorer.length_scaling = required, scaling
        yield {"code": explorer.code, "state": state_of(explorer)}
    _, *parts, _, _ = explorer.code.split(".")
    before = ".".join([PREFIX_BEFORE, *parts])
    explorer.required = "ab"
    yield {"code": f"{before}.{checksum(before)}", "state": state_of(explorer)}


def state_of(explorer) -> dict:
    traits = {"lengthScaling": "length_scaling", "required": "required", "strings": "strings"}
    traits |= {"weights": "weights", "name": "model_name", "epoch": "epoch"}
    return {name: getattr(explorer, trait) for name, trait in traits.items()}


@pytest.mark.parametrize("cases", [1_000, pytest.param(100_000, marks=pytest.mark.weekly)])
def test_javascript(cases, runs, walkthrough, tmp_path):
    rng = np.random.default_rng(0)
    trained = [run.model for of in runs.values() for run in of]
    small = [model for model in trained if numbers_of(model).keys() == LIKE.keys() and model.config.hidden_size == 2]
    plain_models = [model for model in small if not model.config.attend_cls]
    hard = [horizon_of(model, what) for what, model in adversaries()]
    found = [horizon_of(model) for model in trained]
    found += [horizon_of(model) for model in edited_models(small, cases // 10 if cases > 1000 else FEW)]
    expected = {
        "models": [random_model(rng) for _ in range(FEW)],
        "corners": CORNERS.tolist(),
        "cases": cases,
        "erfs": [[x, math.erf(x)] for x in np.linspace(-7, 7, 281).tolist()],
        "like": LIKE,
        "codes": list(codes(walkthrough.model)),
        "horizons": [each for each in found if each["rightUpTo"] is not None],
        "adversaries": hard + [each for each in found if each["rightUpTo"] is None],
        "scaled": [proof_of(model.with_length_scaling(x)) for model in plain_models for x in (0.1, 0.5, 2.0)],
        "gradients": list(gradients()),
        "trained": trained_in_python(),
        "drawn": drawn(),
    }
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    run = subprocess.run(
        [NODE, "--test", *TESTS],
        env=os.environ | {"EXPECTED": str(tmp_path / "expected.json")},
        capture_output=True,
        text=True,
        timeout=60 + cases / 100,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {what: int(number) for what, number in re.findall(r"(\w+) (\d+)$", run.stdout, re.MULTILINE)}
    assert counts["pass"] == counts["tests"] >= sum(path.read_text().count("test(") for path in TESTS)


def test_the_bundle_is_up_to_date(tmp_path):
    """`npm run build` would write the same."""
    subprocess.run([NODE, NPM, "run", "build", "--", f"--outfile={tmp_path / 'bundle.js'}"], cwd=ROOT, check=True)
    assert (tmp_path / "bundle.js").read_bytes() == BUNDLE.read_bytes()


def test_no_line_or_function_is_too_long():
    lengths = []
    for path in sorted((BUNDLE.parent / "js").rglob("*.js")):
        source = path.read_text()
        assert max(map(len, source.splitlines())) <= 120, path
        functions = re.finditer(FUNCTION, source, re.MULTILINE)
        lengths += [(match[0].count("\n") + 1, path.name, match[0].splitlines()[0]) for match in functions]
    assert len(lengths) > 150 and max(lengths)[0] <= 45, max(lengths)


@pytest.mark.weekly
def test_many_seeds_come_to_what_they_come_to_in_python(tmp_path, num_seeds=256):
    """Other seeds, the same kind of models: as many are clean, and their horizons are distributed alike."""
    rule, rows = TrainingConfig(), sweep(ModelConfig(), range(num_seeds))
    given = {
        "like": LIKE,
        "numSeeds": num_seeds,
        "rule": {
            "learningRate": rule.learning_rate,
            "weightDecay": rule.weight_decay,
            "maxEpochs": rule.max_epochs,
            "firstStopEpoch": rule.first_stop_epoch,
            "targetLoss": rule.target_loss,
            "patience": rule.patience,
        },
        "validationBatches": VALIDATION_DATA.num_strings // 64,
        "testStrings": concatenate(next(TEST_DATA.epochs())).counts.tolist(),
    }
    (tmp_path / "given.json").write_text(json.dumps(given))
    script = Path(__file__).parent / "js" / "seeds.mjs"
    run = subprocess.run([NODE, script, tmp_path / "given.json"], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(rows) == num_seeds
    clean = [sum(each["errors"] == 0 for each in found), sum(row.errors == 0 for row in rows)]
    share = sum(clean) / (2 * num_seeds)
    print(f"clean: {clean[0]} in the page, {clean[1]} in Python")
    assert abs(clean[0] - clean[1]) < 4 * np.sqrt(2 * num_seeds * share * (1 - share))
    horizons = [each["horizon"] for each in found], [row.horizon or 0 for row in rows]
    print(f"median horizons: {np.median(horizons[0]):.0f} in the page, {np.median(horizons[1]):.0f} in Python")
    assert mannwhitneyu(*horizons).pvalue > 1e-3
