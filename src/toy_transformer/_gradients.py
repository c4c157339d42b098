"""The gradient of the loss, written out by hand: what autograd gives, in about a quarter of the time.

A training step of models this small consists of calls rather than of arithmetic, and autograd makes
several for each one of ours. Moreover, all strings of a batch have the same few tokens, so queries, keys and
values are computed once for a batch.

Below the losses, each line of `differentiate` is the chain rule for one line above them, in reverse order
(back-propagation, Rumelhart et al. 1986); `d_x` is the derivative of the loss by `x`. Strings are the last dimension.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, gelu

from toy_transformer.data import Batch
from toy_transformer.model import ModelConfig
from toy_transformer.task import CLS, FIRST_LETTER

BLOCK = "self_attention_block."


def is_written_out(config: ModelConfig) -> bool:
    """Say whether `differentiate` can take models of this configuration: heads of size 1, no options."""
    return config.attention_head_size == 1 and not (config.norm or config.dropout or config.length_scaling)


@torch.inference_mode()
def differentiate(
    weights: dict[str, Float[Tensor, "model ..."]], config: ModelConfig, batch: Batch
) -> tuple[Float[Tensor, "model"], dict[str, Float[Tensor, "model ..."]]]:
    """Give the mean loss over a batch, for each of several models, and its gradient for each of their weights.

    `weights` are the stacked parameters by name, as of `torch.func.stack_module_state`. Raises `ValueError`
    for a configuration that is not written out here.
    """
    if not is_written_out(config):
        raise ValueError(f"{config}: expected heads of size 1, no norm, dropout or length scaling")
    names = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
    W_Q, W_K, W_V, W_O, W_in, W_out = (weights[f"{BLOCK}{name}.weight"] for name in names)
    embedding, classifier = weights["embedding.weight"], weights["classifier.weight"]
    multiplicity, labels = batch.counts.T, batch.labels.to(embedding.dtype)
    attended = slice(FIRST_LETTER, None)
    if config.attend_cls:
        cls_once_pad_never = torch.tensor([[1], [0]]).expand(2, len(labels))
        attended, multiplicity = slice(None), torch.cat([cls_once_pad_never, multiplicity])

    cls, embeddings = embedding[:, CLS, :, None], embedding[:, attended].mT
    Q, K, V = W_Q @ cls, W_K @ embeddings, W_V @ embeddings
    scores = (Q * K)[..., None] + multiplicity.double().log().to(embedding.dtype)
    A = scores.softmax(dim=-2)
    means = (V[..., None] * A).sum(dim=-2)
    after_attention = cls + W_O @ means
    z = W_in @ after_attention
    activation = gelu(z)
    transformed = after_attention + W_out @ activation
    logits = (classifier @ transformed)[:, 0]
    losses = binary_cross_entropy_with_logits(logits, labels.expand_as(logits), reduction="none").mean(dim=-1)

    d_logits = ((logits.sigmoid() - labels) / len(labels))[:, None]
    d_transformed = classifier.mT * d_logits
    d_z = torch.ops.aten.gelu_backward(W_out.mT @ d_transformed, z)
    d_after_attention = d_transformed + W_in.mT @ d_z
    d_means = (W_O.mT @ d_after_attention)[..., None, :]
    A_d_means = A * d_means
    d_scores = (A_d_means * (V[..., None] - means[..., None, :])).sum(dim=-1)
    d_Q, d_K, d_V = (d_scores * K).sum(dim=-1, keepdim=True), d_scores * Q, A_d_means.sum(dim=-1)
    d_embedding = torch.zeros_like(embedding)
    d_embedding[:, attended] = (W_K.mT @ d_K + W_V.mT @ d_V).mT
    d_embedding[:, CLS] += (W_Q.mT @ d_Q)[..., 0] + d_after_attention.sum(dim=-1)
    block_gradients = (
        d_Q @ cls.mT,
        d_K @ embeddings.mT,
        d_V @ embeddings.mT,
        d_after_attention @ means.mT,
        d_z @ after_attention.mT,
        d_transformed @ activation.mT,
    )
    return losses, {
        "embedding.weight": d_embedding,
        "classifier.weight": d_logits @ transformed.mT,
        **{f"{BLOCK}{name}.weight": gradient for name, gradient in zip(names, block_gradients, strict=True)},
    }
