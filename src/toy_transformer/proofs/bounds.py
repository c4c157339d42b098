"""Bounds of the logit over boxes of letter counts: fast, in float64, to be believed with a margin only."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch.nn.functional import gelu

from toy_transformer.model import NORM_EPSILON, Transformer
from toy_transformer.task import CLS, FIRST_LETTER

MARGIN, MARGIN_OF_SCORES = 1e-9, 1e-12
"""How far a bound must be from 0, in parts of the sum of the magnitudes of all its terms.

Rounding changes a term by about 1e-15 of its magnitude, and an attention weight by that times the magnitude of its
score. Magnitudes are those of all products, added up without their signs.
"""

GELU_MINIMUM = -0.7517915246935645
"""Where GELU has its only minimum."""


class Bounds:
    """What the logit of a model is made of.

    The heads' weighted means `values` make the state of CLS after attention, cls + W_O · values. The logit is
    classifier · state + feed_forward_output · GELU(W_in · norm(state)).
    """

    def __init__(self, model: Transformer):
        self.config, block = model.config, model.self_attention_block
        weights = {name: weight.double().numpy() for name, weight in model.state_dict().items()}
        if not all(np.isfinite(weight).all() for weight in weights.values()):
            raise ValueError("a weight of the model is not a finite number")
        W_Q, W_K, W_V, self.W_O, self.W_in, W_out = (
            weights[f"self_attention_block.{name}.weight"] for name in ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
        )
        embedding, (classifier,) = weights["embedding.weight"], weights["classifier.weight"]
        self.cls = embedding[CLS]
        tokens = embedding[([CLS] if self.config.attend_cls else []) + [*range(FIRST_LETTER, len(embedding))]]
        hidden_size = self.config.hidden_size
        self.centre = np.eye(hidden_size) - (self.config.norm == "layer") / hidden_size
        norm_weight = weights.get("self_attention_block.attention_norm.weight")
        normed_cls, cls_magnitude = self._norm(self.cls, norm_weight)
        tokens, magnitudes = self._norm(tokens, norm_weight)
        heads, size = block.head_shape
        keys = (tokens @ W_K.T).reshape(-1, heads, size)
        query = (W_Q @ normed_cls).reshape(heads, size) / math.sqrt(size)
        self.scores = np.einsum("thd,hd->ht", keys, query)
        self.values = (tokens @ W_V.T).reshape(-1, heads, size)
        self.constant, self.output, self.feed_forward_output = (
            (classifier @ matrix)[None] for matrix in (self.cls, self.W_O, W_out)
        )
        if self.config.norm:
            self.W_in = self.W_in * weights["self_attention_block.feed_forward_norm.weight"]
        largest_score = ((magnitudes @ abs(W_K).T) * (abs(W_Q) @ cls_magnitude)).max() * size
        state = abs(self.cls) + abs(self.W_O) @ (magnitudes @ abs(W_V).T).max(axis=0)
        normed = abs(self.centre) @ state
        normed = normed / math.sqrt(NORM_EPSILON[self.config.norm]) if self.config.norm else normed
        magnitude = abs(classifier) @ (state + abs(W_out) @ (abs(self.W_in) @ normed))
        self.margin = max(MARGIN, MARGIN_OF_SCORES * largest_score) * magnitude

    def _norm(
        self, x: Float[np.ndarray, "*shape"], weight: np.ndarray | None
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """Give the normed x, and the magnitude of the terms that it is made of."""
        if weight is None:
            return x, abs(x)
        x, magnitude = x @ self.centre.T, abs(x) @ abs(self.centre).T
        root = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + NORM_EPSILON[self.config.norm])
        return x / root * weight, magnitude / root * abs(weight)

    def decide(self, boxes: Float[np.ndarray, "box 2 letter"], labels: Bool[np.ndarray, "box"]) -> list[bool]:
        """Say for each box whether the sign of the logit is certain to be right throughout.

        A box is given by the least and the greatest count of each letter, and by its strings' label.
        """
        low, high = self.logits(boxes)
        margin = self.margin * self._score_factors(boxes)[:, 1]
        return np.where(labels, low > margin, high < -margin).tolist()

    def logits(
        self, boxes: Float[np.ndarray, "box 2 letter"]
    ) -> tuple[Float[np.ndarray, "box"], Float[np.ndarray, "box"]]:
        """Give a lower and an upper bound of the logits of each box's strings."""
        values = self.attention_values(boxes)
        activation = _gelu_range(*self.feed_forward_input(*values))
        direct, transformed = _linear(self.output, *values), _linear(self.feed_forward_output, *activation)
        low, high = (self.constant + d + t for d, t in zip(direct, transformed, strict=True))
        return low[:, 0], high[:, 0]

    def feed_forward_input(
        self, low: Float[np.ndarray, "box value"], high: Float[np.ndarray, "box value"]
    ) -> tuple[Float[np.ndarray, "box unit"], Float[np.ndarray, "box unit"]]:
        if self.config.norm is None:
            constant = self.W_in @ self.cls
            z_low, z_high = _linear(self.W_in @ self.W_O, low, high)
            return constant + z_low, constant + z_high
        constant = self.centre @ self.cls
        x_low, x_high = (constant + x for x in _linear(self.centre @ self.W_O, low, high))
        least = np.where((x_low <= 0) & (x_high >= 0), 0, np.minimum(abs(x_low), abs(x_high)))
        shortest, longest = (
            np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + NORM_EPSILON[self.config.norm])
            for x in (least, np.maximum(abs(x_low), abs(x_high)))
        )
        x_low = x_low / np.where(x_low >= 0, longest, shortest)
        x_high = x_high / np.where(x_high >= 0, shortest, longest)
        return _linear(self.W_in, x_low, x_high)

    def attention_values(
        self, boxes: Float[np.ndarray, "box 2 letter"]
    ) -> tuple[Float[np.ndarray, "box value"], Float[np.ndarray, "box value"]]:
        """Give the range of each weighted mean.

        It is monotone in the weight of each token while the others stay, so its extremes are at corners.
        """
        if self.config.attend_cls:
            boxes = np.pad(boxes, ((0, 0), (0, 0), (1, 0)), constant_values=1)
        factors = self._score_factors(boxes[..., self.config.attend_cls :])
        with np.errstate(divide="ignore", invalid="ignore"):
            counts = np.log(boxes)[:, :, None]
            # Scores count from the largest of those that occur, for a common factor changes no share.
            occurs = boxes[:, 1, None] > 0
            leads = self.scores - np.where(occurs, self.scores, -np.inf).max(axis=-1, keepdims=True)
            leads = np.sort(leads[:, None] * factors[:, :, None, None], axis=1)
            low, high = np.moveaxis(counts + np.where(occurs[:, None], leads, 0), 1, 0)
            weights = np.exp(np.stack([low, high], axis=1) - high.max(axis=-1, keepdims=True)[:, None])
            num_tokens = boxes.shape[-1]
            corners = np.indices((2,) * num_tokens).reshape(num_tokens, -1).T
            weights = np.moveaxis(weights, 2, 3)[:, corners, np.arange(num_tokens)]
            means = np.einsum("bcth,thd->bchd", weights, self.values) / weights.sum(axis=2)[..., None]
        means = means.reshape(len(boxes), len(corners), -1)
        return means.min(axis=1), means.max(axis=1)

    def _score_factors(self, boxes: Float[np.ndarray, "box 2 letter"]) -> Float[np.ndarray, "box 2"]:
        """Give the least and the greatest factor that length scaling gives to the scores of a box's strings."""
        return np.maximum(1, self.config.length_scaling * np.log(boxes.sum(axis=-1)))


def _linear(
    matrix: Float[np.ndarray, "out in"], low: Float[np.ndarray, "box in"], high: Float[np.ndarray, "box in"]
) -> tuple[Float[np.ndarray, "box out"], Float[np.ndarray, "box out"]]:
    middle, reach = (low + high) / 2 @ matrix.T, (high - low) / 2 @ abs(matrix).T
    return middle - reach, middle + reach


def _gelu_range(
    low: Float[np.ndarray, "box unit"], high: Float[np.ndarray, "box unit"]
) -> tuple[Float[np.ndarray, "box unit"], Float[np.ndarray, "box unit"]]:
    """GELU falls up to its minimum and rises from there on."""
    least = np.clip(GELU_MINIMUM, low, high)
    at_low, at_high, at_least = gelu(torch.from_numpy(np.stack([low, high, least]))).numpy()
    return at_least, np.maximum(at_low, at_high)
