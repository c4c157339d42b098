"""The Transformer: one layer, no positions, no biases, and one forward pass that shows each step.

The layer is the encoder layer of Vaswani et al. 2017, "Attention Is All You Need", section 3, with the
norm, if any, before each sublayer (Xiong et al. 2020). The forward pass takes a *multiplicity* for each
position: attending to a token n times is attending to it once with ln n added to its score, because
n·exp(s) = exp(s + ln n). Multiplicity 0 adds ln 0 = −∞ and is the mask.
"""

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toy_transformer.task import FIRST_LETTER, PAD, Task, Tokenizer

MAX_LENGTH_SCALING = 1_000_000

METADATA_KEY = "toy_transformer"
"""The key of a file's metadata under which configuration and seed are."""


@dataclass(frozen=True)
class ModelConfig:
    """The sizes and options of a model. Raises `ValueError` for one that cannot be.

    `hidden_size` is that of the embeddings, `feed_forward_size` the number of units of the feed-forward layer; each
    of `num_attention_heads` has queries, keys and values of `attention_head_size`. `attend_cls` says whether CLS may
    attend to itself. `norm` is None, "layer" or "rms", `dropout` a probability. `embedding_init` is None for torch's
    own initialization, or "linear_like", as torch draws the weights of a linear map; `attention_output_init` and
    `feed_forward_output_init` may be "output_fan_out", which scales the weights by the number of outputs.
    `length_scaling` is κ: in a string of n letters, attention scores are multiplied by max(1, κ ln n) (Chiang and
    Cholak 2022); 0 leaves them alone.
    """

    task: Task = Task()
    hidden_size: int = 2
    num_attention_heads: int = 2
    attention_head_size: int = 1
    feed_forward_size: int = 2
    attend_cls: bool = False
    norm: str | None = None
    dropout: float = 0.0
    length_scaling: float = 0.0
    embedding_init: str | None = None
    attention_output_init: str | None = None
    feed_forward_output_init: str | None = None

    def __post_init__(self):
        for name, value in vars(self).items():
            if name.endswith(("_size", "_heads")) and (type(value) is not int or value < 1):
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
            if name in _OPTIONS and value not in _OPTIONS[name]:
                raise ValueError(f"{name}={value!r}: expected one of {_OPTIONS[name]}")
        if not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout!r}: expected at least 0 and less than 1")
        if not isinstance(self.length_scaling, int | float) or not 0 <= self.length_scaling <= MAX_LENGTH_SCALING:
            raise ValueError(f"length_scaling={self.length_scaling!r}: expected from 0 to {MAX_LENGTH_SCALING:,}")

    @property
    def architecture(self) -> "ModelConfig":
        """The configuration, whatever the initialization: models that agree in it can be trained side by side."""
        return replace(self, embedding_init=None, attention_output_init=None, feed_forward_output_init=None)


_OPTIONS = {
    "attend_cls": (False, True),
    "norm": (None, "layer", "rms"),
    "embedding_init": (None, "linear_like"),
    "attention_output_init": (None, "output_fan_out"),
    "feed_forward_output_init": (None, "output_fan_out"),
}


@dataclass(frozen=True)
class Trace:
    """What one forward pass computes, in the order in which it is computed.

    `multiplicity` is as masked: 0 for PAD and, unless it is attended to, for CLS. `means` are the values, averaged
    with the attention weights. `token` and `key` count the positions of a string, CLS first. `query` counts
    those whose new embedding was asked for: all of them, or the first few. `#batch` is 1 where all strings share a
    value.
    """

    token_ids: Int[Tensor, "#batch token"]
    multiplicity: Float[Tensor, "batch token"]
    embeddings: Float[Tensor, "#batch token hidden"]
    Q: Float[Tensor, "#batch head query head_size"]
    K: Float[Tensor, "#batch head key head_size"]
    V: Float[Tensor, "#batch head key head_size"]
    attention_scores: Float[Tensor, "batch head query key"]
    attention_weights: Float[Tensor, "batch head query key"]
    means: Float[Tensor, "batch head query head_size"]
    attention_output: Float[Tensor, "batch query hidden"]
    attention_output_hidden_states: Float[Tensor, "batch query hidden"]
    feed_forward_output: Float[Tensor, "batch query hidden"]
    transformed_embeddings: Float[Tensor, "batch query hidden"]
    output_logits: Float[Tensor, "batch"]

    @property
    def cls_path(self) -> Float[Tensor, "batch 3 hidden"]:
        """CLS as embedded, after attention, and after feed-forward."""
        after_attention, at_end = self.attention_output_hidden_states[:, 0], self.transformed_embeddings[:, 0]
        return torch.stack([self.embeddings[:, 0].expand_as(at_end), after_attention, at_end], dim=1)


class SelfAttentionBlock(nn.Module):
    """The maps of multi-head attention and feed-forward. They are made in this order, on which the weights depend."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        heads_size = config.num_attention_heads * config.attention_head_size
        self.W_Q = nn.Linear(config.hidden_size, heads_size, bias=False)
        self.W_K = nn.Linear(config.hidden_size, heads_size, bias=False)
        self.W_V = nn.Linear(config.hidden_size, heads_size, bias=False)
        self.W_O = nn.Linear(heads_size, config.hidden_size, bias=False)
        self.W_in = nn.Linear(config.hidden_size, config.feed_forward_size, bias=False)
        self.W_out = nn.Linear(config.feed_forward_size, config.hidden_size, bias=False)
        self.attention_norm = _NORMS[config.norm](config.hidden_size)
        self.feed_forward_norm = _NORMS[config.norm](config.hidden_size)


_NORMS = {None: nn.Identity, "layer": partial(nn.LayerNorm, bias=False), "rms": nn.RMSNorm}


class Transformer(nn.Module):
    """Says whether a string contains all required letters: a positive logit means yes.

    The same configuration and seed always give the same weights; the global random state is left alone.
    """

    def __init__(self, config: ModelConfig = ModelConfig(), seed: int = 0):
        super().__init__()
        self.config, self.seed = config, seed
        self.tokenizer = Tokenizer(config.task.letters)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            vocabulary_size = len(self.tokenizer.vocabulary)
            self.embedding = nn.Embedding(vocabulary_size, config.hidden_size, padding_idx=PAD)
            self.self_attention_block = SelfAttentionBlock(config)
            self.classifier = nn.Linear(config.hidden_size, 1, bias=False)
            self._initialize()
        self.dropout = nn.Dropout(config.dropout)

    @torch.no_grad()
    def _initialize(self):
        # A = √5 makes the bound 1/√fan, as in torch's own initialization of linear maps.
        kaiming_uniform = partial(nn.init.kaiming_uniform_, a=math.sqrt(5))
        if self.config.embedding_init == "linear_like":
            kaiming_uniform(self.embedding.weight)
        self.embedding.weight[PAD] = 0
        if self.config.attention_output_init == "output_fan_out":
            kaiming_uniform(self.self_attention_block.W_O.weight, mode="fan_out")
        if self.config.feed_forward_output_init == "output_fan_out":
            kaiming_uniform(self.self_attention_block.W_out.weight, mode="fan_out")

    def forward(
        self,
        token_ids: Int[Tensor, "#batch token"],
        multiplicity: Float[Tensor, "batch token"] | None = None,
        num_queries: int | None = None,
    ) -> Trace:
        """Computes a `Trace` of strings given as token ids, CLS first.

        `multiplicity` says how often each token occurs; None means once each. `num_queries` limits the
        computation to the first few positions; the logit needs the first, CLS, alone. Ids are taken as they
        are (`Tokenizer` checks them); where no letter can be attended to, the logit is not a number. With
        dropout, the copies that one multiplicity stands for are dropped or kept together.
        """
        block, dropout = self.self_attention_block, self.dropout
        if multiplicity is None:
            multiplicity = torch.ones(token_ids.shape, dtype=self.embedding.weight.dtype)
        if self.config.dropout:
            token_ids = token_ids.expand(multiplicity.shape)
        score_factor = self._score_factor(token_ids, multiplicity)  # batch 1 1 1
        multiplicity = self._mask(token_ids, multiplicity)  # batch token
        embeddings = dropout(self.embedding(token_ids))  # batch token hidden

        # Attention: Vaswani et al. 2017, equation 1, with ln(multiplicity) added to the scores.
        keys_from = block.attention_norm(embeddings)  # batch token hidden
        Q = self._split_heads(block.W_Q(keys_from[:, :num_queries]))  # batch head query head_size
        K = self._split_heads(block.W_K(keys_from))  # batch head key head_size
        V = self._split_heads(block.W_V(keys_from))  # batch head key head_size
        scores = score_factor * (Q @ K.mT / math.sqrt(self.config.attention_head_size))  # batch head query key
        # The float64 logarithm is rounded to the same float32 on every machine.
        log_multiplicity = multiplicity.double().log().to(Q.dtype)[:, None, None, :]  # batch 1 1 key
        attention_scores = scores + log_multiplicity  # batch head query key
        attention_weights = attention_scores.softmax(dim=-1)  # batch head query key
        means = dropout(attention_weights) @ V  # batch head query head_size
        attention_output = block.W_O(means.transpose(1, 2).flatten(2))  # batch query hidden
        after_attention = embeddings[:, :num_queries] + dropout(attention_output)  # batch query hidden

        activation = nn.functional.gelu(block.W_in(block.feed_forward_norm(after_attention)))  # batch query unit
        feed_forward_output = block.W_out(dropout(activation))  # batch query hidden
        transformed = after_attention + dropout(feed_forward_output)  # batch query hidden
        output_logits = self.classifier(transformed[:, 0])[:, 0]  # batch
        attention = attention_scores, attention_weights, means, attention_output, after_attention
        return Trace(
            token_ids, multiplicity, embeddings, Q, K, V, *attention, feed_forward_output, transformed, output_logits
        )

    def _split_heads(self, x: Float[Tensor, "#batch token heads_size"]) -> Float[Tensor, "#batch head token head_size"]:
        return x.unflatten(-1, (self.config.num_attention_heads, self.config.attention_head_size)).transpose(1, 2)

    def _score_factor(
        self, token_ids: Int[Tensor, "#batch token"], multiplicity: Float[Tensor, "batch token"]
    ) -> Float[Tensor, "batch 1 1 1"] | int:
        if not self.config.length_scaling:
            return 1
        length = multiplicity.masked_fill(token_ids < FIRST_LETTER, 0).sum(dim=-1)
        return (self.config.length_scaling * length.log()).clamp(min=1)[:, None, None, None]

    def _mask(
        self, token_ids: Int[Tensor, "#batch token"], multiplicity: Float[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token"]:
        is_masked = token_ids == PAD if self.config.attend_cls else token_ids < FIRST_LETTER
        return multiplicity.masked_fill(is_masked, 0)

    @torch.no_grad()
    def trace(self, strings: Sequence[str]) -> Trace:
        """Computes a `Trace` of strings such as ["baac", "ab{100}"]; raises `ValueError` for bad ones.

        Each written letter is one position: `aa` is two, `a{100}` is one with multiplicity 100.
        """
        token_ids, multiplicities = self.tokenizer.encode_spans(strings)
        dtype = self.embedding.weight.dtype
        return self(torch.tensor(token_ids), torch.tensor(multiplicities, dtype=dtype))

    def with_length_scaling(self, length_scaling: float) -> "Transformer":
        """Gives a copy with the same weights and another `length_scaling`; raises `ValueError` where it cannot be."""
        model = copy.deepcopy(self)
        model.config = replace(self.config, length_scaling=length_scaling)
        return model

    def save(self, path: str | Path) -> None:
        """Writes the model to `path`, in the format safetensors, for `weights.load`; raises `OSError` if it cannot.

        Configuration and seed are metadata. A file that is there already stays whole until the new one is.
        """
        described = json.dumps({"config": asdict(self.config), "seed": self.seed})
        unfinished = Path(f"{path}.unfinished")
        try:
            unfinished.write_bytes(safetensors.torch.save(self.state_dict(), {METADATA_KEY: described}))
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
