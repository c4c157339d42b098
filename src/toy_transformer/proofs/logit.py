"""The logit of a model without norm, as a function of letter counts alone:

    logit = c + o·m + u·GELU(b + F m)        m = Σ n_t e^(τ s_t) v_t / Σ n_t e^(τ s_t), in each head

Token t occurs n_t times, its key scores s_t for the query of CLS, and its value is v_t; τ = max(1, κ ln n) in a string
of n letters. `proofs` and `editing` speak of these arrays, in float64 or in balls (Johansson 2017, Arb).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.task import CLS, FIRST_LETTER

GELU_MINIMUM = -0.7517915246935645
"""Where GELU has its only minimum, rounded."""


@dataclass(frozen=True)
class Logit:
    """The arrays of the formula. The means of all heads follow each other; a head of size d has d of them.

    The tokens are the letters, after CLS where that is attended to.
    """

    c: Any
    o: Shaped[np.ndarray, "mean"]
    b: Shaped[np.ndarray, "unit"]
    F: Shaped[np.ndarray, "unit mean"]
    u: Shaped[np.ndarray, "unit"]
    scores: Shaped[np.ndarray, "head token"]
    values: Shaped[np.ndarray, "head token size"]
    config: ModelConfig

    def of_means(self, means, gelu: Callable):
        """Give the logit for each row of means, with a `gelu` of such arrays; torch's tensors will do as well."""
        return self.c + means @ self.o + gelu(self.b + means @ self.F.T) @ self.u

    def multiplicities(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Say how often each token occurs in a string with these letter counts."""
        return (1,) * self.config.attend_cls + counts


def logit_of(model: Transformer, number: Callable[[float], Any] = float) -> Logit:
    """Give the logit of a model, computed with `number`s: `float`, or `flint.arb`.

    Raises `ValueError` for a model with norm, whose logit has another form, and for weights that are not finite.
    """
    if model.config.norm is not None:
        raise ValueError(f"norm={model.config.norm!r}: expected a model without norm")
    weights = weights_of(model)
    if number is not float:
        weights = {name: np.frompyfunc(number, 1, 1)(weight) for name, weight in weights.items()}
    return of_weights(weights, model.config)


def weights_of(model: Transformer) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Give the weights in float64 by their short names. Raises `ValueError` where one is not finite."""
    weights = {name.split(".")[-2]: weight.double().numpy() for name, weight in model.state_dict().items()}
    if not all(np.isfinite(weight).all() for weight in weights.values()):
        raise ValueError("a weight of the model is not a finite number")
    return weights


def of_weights(weights: dict[str, Shaped[np.ndarray, "..."]], config: ModelConfig) -> Logit:
    """Multiply the matrices of a model, its `weights` by their short names."""
    heads, size = config.num_attention_heads, config.attention_head_size
    embedding, W_O, W_in = weights["embedding"], weights["W_O"], weights["W_in"]
    (classifier,), cls = weights["classifier"], embedding[CLS]
    tokens = embedding[[*[CLS] * config.attend_cls, *range(FIRST_LETTER, len(embedding))]]
    query = (weights["W_Q"] @ cls).reshape(heads, size)
    keys, values = ((tokens @ weights[name].T).reshape(-1, heads, size) for name in ("W_K", "W_V"))
    root = type(cls[0])(size) ** 0.5
    return Logit(
        c=classifier @ cls,
        o=classifier @ W_O,
        b=W_in @ cls,
        F=W_in @ W_O,
        u=classifier @ weights["W_out"],
        scores=(keys * query).sum(axis=-1).T / root,
        values=values.swapaxes(0, 1),
        config=config,
    )


def function_of(model: Transformer) -> dict:
    """Say, in plain data, which function of strings a model is: its weights, and what they do not say."""
    config = model.config
    return {
        "letters": config.task.letters,
        "required": config.task.required,
        "num_attention_heads": config.num_attention_heads,
        "attend_cls": config.attend_cls,
        "length_scaling": config.length_scaling,
        "weights": {name: weight.tolist() for name, weight in model.state_dict().items()},
    }
