"""The encoder of "The Annotated Transformer" (Rush 2018; Huang et al. 2022), with its names, in today's PyTorch.

It is that of Vaswani et al. 2017, section 3, with the norm before each sublayer. What differs from the original's
code: attention weights are returned, as they are before dropout, and not kept on `self`; the maps of a layer start
with different random numbers; sizes and masks that do not fit are refused.
"""

import copy
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MASKED_SCORE = -1e9
"""The original's number. It is too large for float16."""


def attention(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Tensor | None = None,
    dropout: nn.Module | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1); returns the output and the weights.

    Each `query` gets a mean of the rows of `value`, by how well it goes with each `key`; `dropout` is for the weights.
    Where `mask`, of a shape that broadcasts to that of the weights, is 0, a score becomes −1e9, so that its weight
    is 0. Where it is 0 for all keys, all scores are equal, and so are the weights.
    """
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, MASKED_SCORE)
    weights = scores.softmax(dim=-1)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


class MultiHeadedAttention(nn.Module):
    """Multi-head attention (section 3.2.2): three maps before it, one behind it, with biases.

    `h` heads have d_k = d_model / h numbers each. Raises `ValueError` where that is no whole number.
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        if h < 1 or d_model % h:
            raise ValueError(f"h={h}, d_model={d_model}: expected a number of heads that divides d_model")
        self.h, self.d_k = h, d_model // h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        key: Float[Tensor, "batch key d_model"],
        value: Float[Tensor, "batch key d_model"],
        mask: Tensor | None = None,
    ) -> tuple[Float[Tensor, "batch query d_model"], Float[Tensor, "batch head query key"]]:
        """Returns the output and the weights of each head, for `query`, `key` and `value` before they are mapped.

        `mask` is the same for all heads, of shape (batch, 1, key) or (batch, query, key), where batch may be 1.
        Raises `ValueError` for another shape, and for tokens that are not given in a batch.
        """
        if query.dim() != 3:
            raise ValueError(f"query of shape {tuple(query.shape)}: expected (batch, token, d_model)")
        if mask is not None:
            mask = self._for_all_heads(mask, query, key)
        query, key, value = (
            self._split_heads(linear(x)) for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, weights = attention(query, key, value, mask, self.dropout)
        return self.linears[3](x.transpose(1, 2).flatten(2)), weights

    def _split_heads(self, x: Float[Tensor, "batch token d_model"]) -> Float[Tensor, "batch head token d_k"]:
        return x.unflatten(-1, (self.h, self.d_k)).transpose(1, 2)

    def _for_all_heads(self, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
        batch, queries, keys = len(query), query.shape[1], key.shape[1]
        if mask.dim() != 3 or len(mask) not in (1, batch) or mask.shape[1] not in (1, queries) or mask.shape[2] != keys:
            raise ValueError(
                f"mask of shape {tuple(mask.shape)}: expected ({batch}, 1, {keys}) or ({batch}, {queries}, {keys})"
            )
        return mask.unsqueeze(1)


class PositionwiseFeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂, for each position on its own (section 3.3)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.w_2(self.dropout(self.w_1(x).relu()))


class LayerNorm(nn.Module):
    """Layer norm of x as the original writes it: over the standard deviation with n − 1 in it, plus eps.

    `torch.nn.LayerNorm` (Ba et al. 2016) divides by n, and adds eps to the variance, under the root: for n numbers
    its results are √(n / (n − 1)) times as large.
    """

    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        deviation = x - x.mean(dim=-1, keepdim=True)
        return self.a_2 * deviation / (x.std(dim=-1, keepdim=True) + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    """Norm, a sublayer, dropout, and what went in added to it: x + dropout(sublayer(norm(x)))."""

    def __init__(self, size: int, dropout: float):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*batch d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch d_model"]:
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward of x, each in a `SublayerConnection`; the mask is that of the attention."""

    def __init__(self, size: int, self_attn: MultiHeadedAttention, feed_forward: nn.Module, dropout: float):
        super().__init__()
        self.self_attn, self.feed_forward, self.size = self_attn, feed_forward, size
        self.sublayer = nn.ModuleList(SublayerConnection(size, dropout) for _ in range(2))

    def forward(
        self, x: Float[Tensor, "batch token d_model"], mask: Tensor | None = None
    ) -> Float[Tensor, "batch token d_model"]:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask)[0])
        return self.sublayer[1](x, self.feed_forward)


class Encoder(nn.Module):
    """N copies of a layer, one after the other, for x and a mask, and a norm at the end."""

    def __init__(self, layer: EncoderLayer, N: int):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(N))
        self.norm = LayerNorm(layer.size)

    def forward(
        self, x: Float[Tensor, "batch token d_model"], mask: Tensor | None = None
    ) -> Float[Tensor, "batch token d_model"]:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


def torch_attention(ours: MultiHeadedAttention) -> nn.MultiheadAttention:
    """Make PyTorch's own multi-head attention of the same weights, in evaluation mode.

    Its boolean masks are the other way round: True is where attention is forbidden.
    """
    *first_three, last = ours.linears
    theirs = nn.MultiheadAttention(ours.h * ours.d_k, ours.h, batch_first=True, dtype=last.weight.dtype)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([linear.weight for linear in first_three]),
            "in_proj_bias": torch.cat([linear.bias for linear in first_three]),
            "out_proj.weight": last.weight,
            "out_proj.bias": last.bias,
        }
    )
    return theirs.eval()


def torch_encoder_layer(ours: EncoderLayer) -> nn.TransformerEncoderLayer:
    """Make PyTorch's own encoder layer of the same weights, in evaluation mode.

    The scale of its norms makes up for the n − 1 of ours. Its eps is 0; ours makes a norm's result smaller by the
    part eps / standard deviation.
    """
    theirs = nn.TransformerEncoderLayer(
        ours.size, ours.self_attn.h, activation="relu", norm_first=True, batch_first=True, layer_norm_eps=0.0
    )
    theirs.self_attn = torch_attention(ours.self_attn)
    feed_forward = copy.deepcopy(ours.feed_forward)
    theirs.linear1, theirs.linear2 = feed_forward.w_1, feed_forward.w_2
    for norm, sublayer in zip((theirs.norm1, theirs.norm2), ours.sublayer, strict=True):
        norm.weight = nn.Parameter(sublayer.norm.a_2.detach() * math.sqrt((ours.size - 1) / ours.size))
        norm.bias = nn.Parameter(sublayer.norm.b_2.detach().clone())
    return theirs.eval()


def subsequent_mask(size: int) -> Bool[Tensor, "1 size size"]:
    """The mask, of this size, with which each position attends to itself and those before it."""
    return torch.ones(1, size, size, dtype=torch.bool).tril()
