"""Pictures of a model: what a notebook or a control asks for, drawn by `plots`."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from toy_transformer import plots
from toy_transformer.model import Trace, Transformer
from toy_transformer.training import TrainedModel

MAX_STRINGS = 10
MAX_POSITIONS = 12


def split_strings(text: str) -> list[str]:
    """Read strings typed by a person: "aac, baac" gives ["aac", "baac"].

    Raises `ValueError` for more than fit into one picture.
    """
    strings = [string.strip() for string in text.rstrip(", ").split(",")]
    if len(strings) > MAX_STRINGS:
        raise ValueError(f"{len(strings)} strings: expected at most {MAX_STRINGS}, separated by commas")
    return strings


def draw_embeddings(trained: TrainedModel, epoch: int | None = None) -> Axes:
    """Draw the embeddings at an epoch, the best if none is given, and their way from epoch 0.

    The axes are the same for all epochs.
    """
    epoch = trained.best_epoch if epoch is None else epoch
    vocabulary = trained.model_at(epoch).tokenizer.vocabulary
    all_epochs = torch.stack([weights["embedding.weight"] for weights in trained.weights])
    return plots.plot_tokens(all_epochs[: epoch + 1], vocabulary, room_for=all_epochs)


def draw_embeddings_in_space(model: Transformer, azimuth: float = -60) -> Axes:
    """Draw the embeddings of CLS and of the letters in their three principal components (Pearson 1901).

    Four points span three dimensions at most, however many numbers each of them has.
    """
    names = [name for name in model.tokenizer.vocabulary if name != "PAD"]
    embeddings = model.embedding.weight.detach()[[model.tokenizer.vocabulary.index(name) for name in names]]
    _, lengths, directions = torch.linalg.svd(embeddings - embeddings.mean(dim=0), full_matrices=False)
    # A principal direction has no sign of its own: make its largest number positive.
    directions = directions * directions.gather(1, directions.abs().argmax(dim=1, keepdim=True)).sign()
    variances = lengths**2 / (lengths**2).sum()
    title = f"explained variance {' + '.join(f'{v:.0%}' for v in variances[:3])} = {variances[:3].sum():.0%}"
    return plots.plot_tokens_in_space(embeddings @ directions[:3].T, names, title, azimuth)


def draw_magnitudes(models: Mapping[str, Sequence[Transformer]]) -> Axes:
    """Draw the mean magnitude of the numbers of each weight matrix, for kinds of models; PAD's zeros are left out."""
    magnitudes = {}
    for kind, some in models.items():
        magnitudes[kind] = {}
        for name, _ in some[0].named_parameters():
            numbers = torch.stack([model.get_parameter(name) for model in some])
            matrix = name.removesuffix(".weight").split(".")[-1]
            magnitudes[kind][matrix] = numbers[numbers != 0].abs().mean().item()
    return plots.plot_magnitudes(magnitudes)


def draw_cls_paths(model: Transformer, strings: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the path of CLS for each string."""
    return plots.plot_cls_paths(strings, model.trace(strings).cls_path, model.classifier.weight[0], ax=ax)


def draw_queries_and_keys(model: Transformer, string: str, axes: Sequence[Axes] | None = None) -> Figure:
    """Draw the query of CLS, the keys and the attention weights, one strip a head."""
    names = ["CLS", *(model.tokenizer.span(*span) for span in model.tokenizer.parse(string))]
    if len(names) > 1 + MAX_POSITIONS:
        raise ValueError(
            f"{len(names) - 1} letters to draw: expected at most {MAX_POSITIONS}; write repeats as a{{100}}"
        )
    trace = _trace_heads(model, [string])
    axes = _strips(trace) if axes is None else axes
    for head, ax in enumerate(axes):
        query, keys = trace.Q[0, head, 0].item(), trace.K[0, head, :, 0]
        plots.plot_query_and_keys(query, keys, trace.attention_weights[0, head, 0], names, head, ax)
    return axes[0].figure


def draw_values(model: Transformer, strings: Sequence[str]) -> Figure:
    """Draw the value of each letter and the result for each string, one strip a head."""
    letters = model.tokenizer.letters
    values, trace = _letter_values(model), model.trace(strings)
    axes = _strips(trace)
    for head, ax in enumerate(axes):
        plots.plot_values(values[head], letters, strings, trace.attention_values[:, head, 0, 0], head, ax)
    return axes[0].figure


def draw_logits(model: Transformer, patterns: Sequence[str], longest: int) -> Axes:
    """Draw the logit of patterns such as "a{N}b" for N from 1 to `longest`."""
    repeats = _repeats(longest)
    curves = {pattern: _trace_repeats(model, pattern, repeats).output_logits for pattern in patterns}
    return plots.plot_over_repeats(repeats, curves)


def draw_head(model: Transformer, head: int, patterns: Sequence[str], longest: int) -> Axes:
    """Draw the result of one head for patterns such as "ab{N}" for N from 1 to `longest`."""
    repeats = _repeats(longest)
    curves = {pattern: _trace_repeats(model, pattern, repeats).attention_values[:, head, 0, 0] for pattern in patterns}
    levels = dict(zip(model.tokenizer.letters, _letter_values(model)[head], strict=True))
    return plots.plot_over_repeats(repeats, curves, f"result of head {head}", levels)


def _strips(trace: Trace) -> Sequence[Axes]:
    num_heads = trace.V.shape[1]
    return plt.subplots(num_heads, 1, figsize=(7, 2.2 * num_heads), squeeze=False)[1][:, 0]


def _repeats(longest: int) -> np.ndarray:
    return np.unique(np.geomspace(1, longest, 120).round().astype(int))


def _letter_values(model: Transformer) -> Float[Tensor, "head letter"]:
    return _trace_heads(model, [model.tokenizer.letters]).V[0, :, 1:, 0]


def _trace_heads(model: Transformer, strings: Sequence[str]) -> Trace:
    """Trace a model whose queries, keys and values are numbers, and can be drawn on a line."""
    if model.config.attention_head_size != 1:
        raise ValueError(f"heads of size {model.config.attention_head_size}: only those of size 1 fit on a line")
    return model.trace(strings)


def _trace_repeats(model: Transformer, pattern: str, repeats: np.ndarray) -> Trace:
    return model.trace([pattern.replace("N", str(n)) for n in repeats])
