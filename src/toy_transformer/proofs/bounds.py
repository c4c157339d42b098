"""Bounds of the logit over boxes of letter counts: fast, in float64, to be believed with a margin only."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch.nn.functional import gelu

from toy_transformer.model import Transformer
from toy_transformer.proofs.logit import GELU_MINIMUM, Logit, logit_of, of_weights, weights_of

MARGIN, MARGIN_OF_SCORES = 1e-9, 1e-12
"""How far a bound must be from 0, in parts of the sum of the magnitudes of all its terms.

Rounding changes a term by about 1e-15 of its magnitude, and an attention weight by that times the magnitude of its
score. Magnitudes are those of all products, added up without their signs.
"""

LEAST = 1e-290
"""Products of smaller numbers underflow: for the margin, none of a formula's numbers counts as smaller."""


class Bounds:
    """The logit of a model, how large its terms can be (`magnitude`), and how far float64 bounds may be off (`margin`).

    Where the margin is as large as the terms, the bounds decide nothing.
    """

    def __init__(self, model: Transformer):
        self.config = model.config
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows gives no margin that is less than it
            self.logit = logit_of(model)
            sizes = of_weights({name: abs(weight) for name, weight in weights_of(model).items()}, model.config)
            arrays = {name: np.maximum(getattr(sizes, name), LEAST) for name in ("c", "o", "b", "F", "u", "values")}
            self.magnitude = _largest_logit(sizes)
            self.margin = max(MARGIN, MARGIN_OF_SCORES * sizes.scores.max()) * _largest_logit(replace(sizes, **arrays))

    def decide(self, boxes: Float[np.ndarray, "box 2 letter"], labels: Bool[np.ndarray, "box"]) -> list[bool]:
        """Say for each box whether the sign of the logit is certain to be right throughout.

        Each of the `boxes` is given by the least and the greatest count of each letter, and by its strings' label.
        """
        low, high = self.logits(boxes)
        margin = self.margin * self._score_factors(boxes)[:, 1]
        return np.where(labels, low > margin, high < -margin).tolist()

    def logits(
        self, boxes: Float[np.ndarray, "box 2 letter"]
    ) -> tuple[Float[np.ndarray, "box"], Float[np.ndarray, "box"]]:
        """Give a lower and an upper bound of the logits of the strings of each of the `boxes`."""
        c, o, b, F, u = (getattr(self.logit, name) for name in "cobFu")
        means = self.means(boxes)
        z_low, z_high = _linear(F, *means)
        through_means, through_units = _linear(o, *means), _linear(u, *_gelu_range(b + z_low, b + z_high))
        low, high = (c + direct + indirect for direct, indirect in zip(through_means, through_units, strict=True))
        return low, high

    def means(
        self, boxes: Float[np.ndarray, "box 2 letter"]
    ) -> tuple[Float[np.ndarray, "box mean"], Float[np.ndarray, "box mean"]]:
        """Give the range of each weighted mean in each of the `boxes`.

        It is monotone in the weight of each token while the others stay, so its extremes are at corners.
        """
        factors = self._score_factors(boxes)
        if self.config.attend_cls:
            boxes = np.pad(boxes, ((0, 0), (0, 0), (1, 0)), constant_values=1)
        scores = self.logit.scores
        with np.errstate(divide="ignore", invalid="ignore"):
            counts = np.log(boxes)[:, :, None]
            # Scores count from the largest of those that occur, for a common factor changes no share.
            occurs = boxes[:, 1, None] > 0
            leads = scores - np.where(occurs, scores, -np.inf).max(axis=-1, keepdims=True)
            leads = np.sort(leads[:, None] * factors[:, :, None, None], axis=1)
            low, high = np.moveaxis(counts + np.where(occurs[:, None], leads, 0), 1, 0)
            weights = np.exp(np.stack([low, high], axis=1) - high.max(axis=-1, keepdims=True)[:, None])
            num_tokens = boxes.shape[-1]
            corners = np.indices((2,) * num_tokens).reshape(num_tokens, -1).T
            weights = np.moveaxis(weights, 2, 3)[:, corners, np.arange(num_tokens)]
            means = np.einsum("bcth,htd->bchd", weights, self.logit.values) / weights.sum(axis=2)[..., None]
        means = means.reshape(len(boxes), len(corners), -1)
        return means.min(axis=1), means.max(axis=1)

    def _score_factors(self, boxes: Float[np.ndarray, "box 2 letter"]) -> Float[np.ndarray, "box 2"]:
        """Give the least and the greatest factor that length scaling gives to the scores of a box's strings."""
        return np.maximum(1, self.config.length_scaling * np.log(boxes.sum(axis=-1)))


def _largest_logit(sizes: Logit) -> float:
    return sizes.of_means(sizes.values.max(axis=1).ravel(), gelu=abs)


def _linear(
    matrix: Float[np.ndarray, "*out in"], low: Float[np.ndarray, "box in"], high: Float[np.ndarray, "box in"]
) -> tuple[Float[np.ndarray, "box *out"], Float[np.ndarray, "box *out"]]:
    middle, reach = (low + high) / 2 @ matrix.T, (high - low) / 2 @ abs(matrix).T
    return middle - reach, middle + reach


def _gelu_range(
    low: Float[np.ndarray, "box unit"], high: Float[np.ndarray, "box unit"]
) -> tuple[Float[np.ndarray, "box unit"], Float[np.ndarray, "box unit"]]:
    """GELU falls up to its minimum and rises from there on."""
    least = np.clip(GELU_MINIMUM, low, high)
    at_low, at_high, at_least = gelu(torch.from_numpy(np.stack([low, high, least]))).numpy()
    return at_least, np.maximum(at_low, at_high)
