"""A model is kept in a file, and what is no such file is refused."""

import json
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from toy_transformer import load
from toy_transformer.model import METADATA_KEY, ModelConfig, Transformer
from toy_transformer.task import Task

CONFIGS = [
    ModelConfig(),
    ModelConfig(Task("abcd", "bd"), hidden_size=5, norm="rms", dropout=0.5, length_scaling=0.3, attend_cls=True),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_loaded_is_what_was_saved(config, dtype, tmp_path):
    model = Transformer(config, seed=3).to(dtype)
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert (loaded.config, loaded.seed, loaded.training) == (config, 3, False)
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert torch.equal(loaded.trace(["abba"]).output_logits, model.eval().trace(["abba"]).output_logits)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_what_was_there_stays_whole(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    Transformer(seed=1).save(path)
    before = path.read_bytes()

    def write_half(self, content):
        with self.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="No space left"):
        Transformer(seed=2).save(path)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


def _write(path, change_about=lambda about: about, change_tensors=lambda tensors: tensors):
    Transformer().save(path)
    with safetensors.safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()[METADATA_KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    path.write_bytes(safetensors.torch.save(change_tensors(tensors), {METADATA_KEY: json.dumps(change_about(about))}))


@pytest.mark.parametrize(
    "change",
    [
        lambda about: [],
        lambda about: {"seed": 0},
        lambda about: about | {"seed": "x"},
        lambda about: about | {"config": about["config"] | {"unknown": 1}},
        lambda about: about | {"config": about["config"] | {"task": {"letters": "cba", "required": "a"}}},
        lambda about: about | {"config": about["config"] | {"task": {"letters": "abc"}}} and {"config": 5, "seed": 0},
        lambda about: about | {"config": about["config"] | {"hidden_size": -1}},
    ],
)
def test_a_bad_configuration_is_refused(change, tmp_path):
    _write(tmp_path / "bad", change)
    with pytest.raises(ValueError, match="bad: this is no file of a model"):
        load(tmp_path / "bad")


@pytest.mark.parametrize("size", [3, 10**9, 10**30])
def test_other_sizes_than_those_of_the_configuration_are_refused(size, tmp_path):
    _write(tmp_path / "bad", lambda about: about | {"config": about["config"] | {"hidden_size": size}})
    with pytest.raises(ValueError, match="bad: (expected tensors of these sizes|this is no file of a model)"):
        load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: {name: x for name, x in t.items() if "W_Q" not in name}, "expected tensors of these sizes"),
        (lambda t: t | {"more": torch.zeros(1)}, "expected tensors of these sizes"),
        (lambda t: t | {"classifier.weight": torch.tensor([[torch.nan, 0]])}, "expected finite numbers"),
        (lambda t: t | {"classifier.weight": torch.tensor([[0.0, 1.0]]).double()}, "expected finite numbers"),
        (lambda t: {name: x.int() for name, x in t.items()}, "expected finite numbers"),
    ],
)
def test_bad_tensors_are_refused(change, reason, tmp_path):
    _write(tmp_path / "bad", change_tensors=change)
    with pytest.raises(ValueError, match=reason):
        load(tmp_path / "bad")


@pytest.mark.parametrize("content", [b"", b"\x08", pickle.dumps({"embedding.weight": [1]})])
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match="bad: this is no file of a model"):
        load(tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "not there")
