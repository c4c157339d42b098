import dataclasses
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from toy_transformer.data import from_counts
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.task import CLS, PAD, Task

CONFIGS = [
    ModelConfig(),
    ModelConfig(attend_cls=True),
    ModelConfig(Task("abcd", "bd"), hidden_size=6, num_attention_heads=3, attention_head_size=2, feed_forward_size=5),
    ModelConfig(hidden_size=16, num_attention_heads=16, norm="layer"),
    ModelConfig(hidden_size=8, norm="rms", attend_cls=True, embedding_init="linear_like"),
]


@pytest.fixture(params=CONFIGS, ids=lambda config: f"hidden {config.hidden_size}, norm {config.norm}")
def model(request) -> Transformer:
    return Transformer(request.param, seed=3).double().eval().requires_grad_(False)


def test_attention_is_that_of_torch(model):
    """With the same weights, `torch.nn.MultiheadAttention` gives the same output and weights."""
    config, block = model.config, model.self_attention_block
    size = config.num_attention_heads * config.attention_head_size
    theirs = nn.MultiheadAttention(
        size, config.num_attention_heads, bias=False, kdim=size, vdim=size, batch_first=True, dtype=torch.float64
    )
    # Theirs maps vectors of the heads' total size only: give it our queries, keys and values ready-made.
    eye = torch.eye(size, dtype=torch.float64)
    theirs.load_state_dict({"in_proj_weight": torch.cat([eye] * 3), "out_proj.weight": eye})
    trace = model.trace(["abca", "bb", "c"])
    hidden_states = block.attention_norm(trace.embeddings)
    values, weights = theirs(
        block.W_Q(hidden_states),
        block.W_K(hidden_states),
        block.W_V(hidden_states),
        key_padding_mask=trace.multiplicity == 0,
        average_attn_weights=False,
    )
    torch.testing.assert_close(trace.attention_weights, weights)
    torch.testing.assert_close(trace.attention_output, block.W_O(values))


def test_steps_add_up(model):
    trace = model.trace(["abca", "bb"])
    torch.testing.assert_close(
        trace.attention_output_hidden_states, trace.embeddings + trace.attention_output, rtol=0, atol=1e-12
    )
    torch.testing.assert_close(
        trace.transformed_embeddings, trace.attention_output_hidden_states + trace.feed_forward_output
    )
    torch.testing.assert_close(trace.cls_path[:, 2], trace.transformed_embeddings[:, 0])
    torch.testing.assert_close(trace.cls_path[:, 0], trace.embeddings[:, 0])
    torch.testing.assert_close(trace.output_logits, (trace.cls_path[:, 2] @ model.classifier.weight.T)[:, 0])


@pytest.mark.parametrize("strings", [["a", "cab", "bbbbb", "abcabcabc"]])
def test_a_string_is_its_counts(model, strings):
    """Written out, in short form, in any order, or as a table of counts: the logit is the same."""
    counts = torch.tensor([model.tokenizer.counts(string) for string in strings])
    expected = model(torch.tensor(model.tokenizer.encode_batch(strings))).output_logits
    short_forms = [model.tokenizer.short_form(row) for row in counts.tolist()]
    for same in (
        model.trace(strings).output_logits,
        model.trace([string[::-1] for string in strings]).output_logits,
        model.trace(short_forms).output_logits,
        model(*from_counts(counts, torch.float64)).output_logits,
        model(*from_counts(counts, torch.float64), num_queries=1).output_logits,
    ):
        torch.testing.assert_close(same, expected)


def test_padding_changes_nothing(model):
    alone = model.trace(["ab"])
    padded = model.trace(["ab", "abcabcabcabc"])
    torch.testing.assert_close(padded.output_logits[0], alone.output_logits[0])
    assert (padded.attention_weights[0, ..., 3:] == 0).all()
    assert (padded.embeddings[0, 3:] == 0).all()


def test_cls_is_attended_to_only_when_asked(model):
    to_cls = model.trace(["ab", "c"]).attention_weights[..., CLS]
    assert (to_cls > 0).all() if model.config.attend_cls else (to_cls == 0).all()


@pytest.mark.parametrize("factor", [2, 7, 10**9])
def test_only_proportions_matter_unless_cls_is_attended_to(model, factor):
    counts = torch.tensor([[1, 2, 3], [5, 0, 1]])
    if model.config.task.letters == "abcd":
        counts = torch.cat([counts, counts[:, :1]], dim=1)
    once = model(*from_counts(counts, torch.float64)).output_logits
    repeated = model(*from_counts(factor * counts, torch.float64)).output_logits
    assert torch.allclose(once, repeated, rtol=1e-9) == (not model.config.attend_cls)


def test_a_stack_of_models_computes_what_each_does_alone():
    for config in CONFIGS:
        models = [Transformer(config, seed).eval() for seed in range(3)]
        weights, _ = stack_module_state(models)
        counts = torch.randint(1, 9, (10, len(config.task.letters)), generator=torch.Generator().manual_seed(0))
        call = partial(functional_call, models[0], args=from_counts(counts))
        together = vmap(lambda weights, call=call: call(weights).output_logits)(weights)
        alone = torch.stack([model(*from_counts(counts)).output_logits for model in models])
        torch.testing.assert_close(together, alone)


def test_torch_draws_the_same_initial_weights():
    """The order of construction is part of the published numbers."""
    state = torch.random.get_rng_state()
    model = Transformer(ModelConfig(hidden_size=4, feed_forward_size=3), seed=11)
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        embedding = nn.Embedding(5, 4)
        sizes = [(4, 2), (4, 2), (4, 2), (2, 4), (4, 3), (3, 4), (4, 1)]
        maps = [nn.Linear(*size, bias=False) for size in sizes]
    with torch.no_grad():
        embedding.weight[PAD] = 0
    expected = [embedding.weight, *(linear.weight for linear in maps)]
    for ours, theirs in zip(model.parameters(), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_initialization_options():
    plain = ModelConfig(hidden_size=16)
    options = dict(
        embedding_init="linear_like",
        attention_output_init="output_fan_out",
        feed_forward_output_init="output_fan_out",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        Transformer(plain, seed=4)  # leaves the random state alone
        [nn.Embedding(5, 16)] + [
            nn.Linear(*s, bias=False) for s in [(16, 2)] * 3 + [(2, 16), (16, 2), (2, 16), (16, 1)]
        ]
        expected = {}
        for name, shape, fan in [("embedding", (5, 16), 16), ("W_O", (16, 2), 16), ("W_out", (16, 2), 16)]:
            expected[name] = torch.empty(shape).uniform_(-(fan**-0.5), fan**-0.5)
    expected["embedding"][PAD] = 0
    model = Transformer(dataclasses.replace(plain, **options), seed=4)
    block = model.self_attention_block
    torch.testing.assert_close(model.embedding.weight.detach(), expected["embedding"])
    torch.testing.assert_close(block.W_O.weight.detach(), expected["W_O"])
    torch.testing.assert_close(block.W_out.weight.detach(), expected["W_out"])


def test_dropout_drops_in_training_only():
    model = Transformer(ModelConfig(hidden_size=8, dropout=0.5))
    counts = torch.tensor([[1, 2, 3]] * 8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropped = model(*from_counts(counts))
    assert len(dropped.output_logits.unique()) > 1
    assert not torch.equal(dropped.embeddings[0], dropped.embeddings[1])
    assert not torch.allclose(dropped.means, dropped.attention_weights @ dropped.V)
    assert len(model.eval()(*from_counts(counts)).output_logits.unique()) == 1


def test_length_scaling_multiplies_the_scores():
    """By max(1, κ ln n), where n counts letters, neither CLS nor PAD, however the string is given."""
    strings = ["ab", "abca", "a{2}bc", "ab{100}c{7}", "c"]
    plain, scaled = Transformer(seed=3), Transformer(seed=3).with_length_scaling(0.8)
    for string in strings:
        factor = max(1, 0.8 * math.log(sum(plain.tokenizer.counts(string))))
        trace = plain.trace([string])
        log_multiplicity = trace.multiplicity[0].log()
        scores = (trace.attention_scores - log_multiplicity).nan_to_num()
        expected = (factor * scores + log_multiplicity).softmax(dim=-1)
        torch.testing.assert_close(scaled.trace([string]).attention_weights, expected)
    torch.testing.assert_close(scaled.trace(["abca"]).output_logits, scaled.trace(["a{2}bc"]).output_logits)
    token_ids = torch.tensor(scaled.tokenizer.encode_batch(strings))
    torch.testing.assert_close(scaled(token_ids).output_logits, scaled.trace(strings).output_logits)


def test_the_scores_of_a_long_string_need_no_long_table():
    trace = Transformer().trace([f"a{{{10**17}}}b{{{10**12}}}"])
    assert trace.attention_scores.shape == (1, 2, 3, 3)
    assert trace.output_logits.isfinite().all()


def test_weights_over_nothing_are_not_a_number():
    assert Transformer()(torch.tensor([[CLS, PAD]])).attention_weights.isnan().all()


@pytest.mark.parametrize("strings", ["aac", [], ["ab", "x"]])
def test_bad_strings_are_refused(strings):
    with pytest.raises(ValueError, match="expected"):
        Transformer().trace(strings)


@pytest.mark.parametrize(
    "option",
    [
        dict(hidden_size=0),
        dict(num_attention_heads=-1),
        dict(norm="batch"),
        dict(embedding_init="zeros"),
        dict(dropout=1.0),
        dict(dropout=-0.1),
        dict(length_scaling=-1.0),
        dict(length_scaling=math.nan),
        dict(length_scaling=1e300),
    ],
)
def test_models_that_cannot_be(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))}=.*expected"):
        ModelConfig(**option)
