"""The Annotated Transformer's encoder layer against PyTorch's own, and against the toy's attention."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from toy_transformer.annotated import (
    Encoder,
    EncoderLayer,
    LayerNorm,
    MultiHeadedAttention,
    PositionwiseFeedForward,
    attention,
    subsequent_mask,
    torch_attention,
    torch_encoder_layer,
)

CLOSE = dict(rtol=0, atol=1e-6)
H, D_MODEL, D_FF, BATCH, N = 4, 12, 20, 3, 5


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def _masks() -> dict[str, torch.Tensor | None]:
    padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()[:, None]
    return {
        "none": None,
        "(batch, 1, n)": padding,
        "(batch, n, n)": padding & subsequent_mask(N),
        "(1, n, n)": subsequent_mask(N),
    }


MASKS = _masks()


@pytest.fixture(autouse=True)
def reproducible():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _forbidden(mask: torch.Tensor | None, heads: int) -> torch.Tensor | None:
    """A mask as PyTorch's attention takes it: True where attention is forbidden, one for each head."""
    return None if mask is None else ~mask.expand(BATCH, N, N).repeat_interleave(heads, dim=0)


@pytest.mark.parametrize("mask", MASKS)
def test_attention(mask):
    query, key, value = (_random(BATCH, N, D_MODEL + i) for i in (0, 0, 1))
    query = query + 1
    output, weights = attention(query, key, value, MASKS[mask])
    allowed = None if MASKS[mask] is None else MASKS[mask].expand(BATCH, N, N)
    torch.testing.assert_close(output, scaled_dot_product_attention(query, key, value, allowed), **CLOSE)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, N).double(), **CLOSE)


@pytest.mark.parametrize("mask", MASKS)
def test_multi_headed_attention(mask):
    ours = MultiHeadedAttention(H, D_MODEL).double().eval()
    query, key, value = _random(BATCH, N, D_MODEL), 2 * _random(BATCH, N, D_MODEL), _random(BATCH, N, D_MODEL) + 1
    output, weights = ours(query, key, value, MASKS[mask])
    expected = torch_attention(ours)(
        query, key, value, attn_mask=_forbidden(MASKS[mask], H), need_weights=True, average_attn_weights=False
    )
    torch.testing.assert_close(output, expected[0], **CLOSE)
    torch.testing.assert_close(weights, expected[1], **CLOSE)


def test_fewer_queries_than_keys():
    """Cross-attention: the queries come from elsewhere."""
    ours = MultiHeadedAttention(H, D_MODEL).double().eval()
    query, memory = _random(BATCH, 2, D_MODEL), _random(BATCH, N, D_MODEL)
    expected = torch_attention(ours)(query, memory, memory)[0]
    torch.testing.assert_close(
        ours(query, memory, memory, MASKS["(batch, 1, n)"].expand(BATCH, 2, N) | True)[0], expected
    )


def _layer() -> EncoderLayer:
    attn, feed_forward = MultiHeadedAttention(H, D_MODEL), PositionwiseFeedForward(D_MODEL, D_FF)
    return EncoderLayer(D_MODEL, attn, feed_forward, dropout=0.1).double().eval()


@pytest.mark.parametrize("mask", MASKS)
def test_encoder_layer(mask):
    """With the norm's n − 1 made up for, and no eps on either side."""
    ours = _layer()
    for sublayer in ours.sublayer:
        sublayer.norm.eps = 0.0
        nn.init.uniform_(sublayer.norm.a_2, 0.5, 2)
        nn.init.uniform_(sublayer.norm.b_2)
    x = _random(BATCH, N, D_MODEL)
    expected = torch_encoder_layer(ours)(x, src_mask=_forbidden(MASKS[mask], H))
    torch.testing.assert_close(ours(x, MASKS[mask]), expected, **CLOSE)


def test_the_norms_differ_by_a_factor_and_little_more():
    """√((n − 1) / n); eps, where the numbers spread by 1 or so, changes a millionth part of the result."""
    x = _random(100, D_MODEL)
    ours, theirs = LayerNorm(D_MODEL).double()(x), nn.LayerNorm(D_MODEL, dtype=torch.float64)(x)
    factor = math.sqrt((D_MODEL - 1) / D_MODEL)
    torch.testing.assert_close(ours / theirs, torch.full_like(x, factor), rtol=0, atol=5e-5)
    assert (ours / theirs - 1).abs().min() > 0.04


def test_encoder():
    ours = _layer()
    encoder, x = Encoder(ours, 3).eval(), _random(BATCH, N, D_MODEL)
    assert encoder.layers[0].self_attn.linears[0].weight is not encoder.layers[1].self_attn.linears[0].weight
    encoder = encoder.double()
    torch.testing.assert_close(encoder(x, MASKS["(1, n, n)"]), encoder.norm(_three_times(ours, x)))


def _three_times(layer: EncoderLayer, x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = layer(x, MASKS["(1, n, n)"])
    return x


def test_the_toys_attention(walkthrough):
    """Loaded with zero biases it gives the toy's numbers, for CLS and for all other tokens."""
    model = copy.deepcopy(walkthrough.model).double()
    trace = model.trace(["abcab", "aacbb"])
    ours = MultiHeadedAttention(h=2, d_model=2).double().eval()
    block = model.self_attention_block
    for linear, weight in zip(ours.linears, (block.W_Q, block.W_K, block.W_V, block.W_O), strict=True):
        linear.weight.data.copy_(weight.weight)
        linear.bias.data.zero_()
    mask = (trace.multiplicity > 0)[:, None]
    output, weights = ours(*[trace.embeddings] * 3, mask)
    torch.testing.assert_close(weights, trace.attention_weights, **CLOSE)
    torch.testing.assert_close(output, trace.attention_output, **CLOSE)


def test_a_row_in_which_all_is_masked_attends_to_all_alike():
    value = _random(1, N, D_MODEL)
    output, weights = attention(value, value, value, torch.zeros(1, 1, N))
    torch.testing.assert_close(weights, torch.full((1, N, N), 1 / N).double())
    torch.testing.assert_close(output, value.mean(dim=1, keepdim=True).expand_as(value))


@pytest.mark.parametrize("shape", [(N, N), (BATCH, N), (BATCH, 2, N), (BATCH, 1, 4), (2, 1, N), (BATCH, 1, 1, N)])
def test_wrong_masks(shape):
    x = torch.zeros(BATCH, N, D_MODEL)
    with pytest.raises(ValueError, match=rf"mask of shape \({shape[0]}, .*expected \(3, 1, 5\) or \(3, 5, 5\)"):
        MultiHeadedAttention(H, D_MODEL)(x, x, x, torch.ones(shape))


def test_tokens_that_are_not_in_a_batch():
    x = torch.zeros(N, D_MODEL)
    with pytest.raises((ValueError, TypeError), match="expected|typecheck"):
        MultiHeadedAttention(H, D_MODEL)(x, x, x)


@pytest.mark.parametrize("h", [5, 0, 24])
def test_heads_that_do_not_divide(h):
    with pytest.raises(ValueError, match=f"h={h}, d_model=12: expected a number of heads that divides d_model"):
        MultiHeadedAttention(h, D_MODEL)


def test_dropout_is_where_it_was():
    """On the weights, behind each sublayer, and inside the feed-forward: none of it when evaluated."""
    layer, x = _layer(), _random(1, N, D_MODEL)
    assert torch.equal(layer(x), layer(x))
    modules = [name for name, module in layer.named_modules() if isinstance(module, nn.Dropout)]
    assert modules == ["self_attn.dropout", "feed_forward.dropout", "sublayer.0.dropout", "sublayer.1.dropout"]
    for name in modules:
        layer.get_submodule(name).train()
        assert not torch.equal(layer(x), layer(x))
        layer.get_submodule(name).eval()


def test_subsequent_mask():
    assert subsequent_mask(3).int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
