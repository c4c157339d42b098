"""Pictures of a model: what a notebook or a control asks for, drawn by `plots`."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from toy_transformer.data import from_counts
from toy_transformer.evaluation import is_right
from toy_transformer.experiments import IDEAS
from toy_transformer.model import Trace, Transformer
from toy_transformer.pictures import maps, plots
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, horizon, shortest_wrong_string
from toy_transformer.studies.sweeps import SweepRow, outcomes
from toy_transformer.training import TrainedModel
from toy_transformer.weights import numbers_of

MAX_STRINGS = 10
MAX_POSITIONS = 12
PANELS_BESIDE = 2
"""More beside each other cannot be read at the width of a page."""


def split_strings(text: str) -> list[str]:
    """Read strings out of a text that a person typed: "aac, baac" gives ["aac", "baac"].

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


def draw_lengths(runs: Mapping[str, Sequence[TrainedModel]]) -> Axes:
    """Draw the mean length of the vectors of each matrix, at the start and trained, for kinds of models."""
    starts = {kind: mean_lengths([run.model_at(0) for run in each]) for kind, each in runs.items()}
    return plots.plot_lengths(starts, {kind: mean_lengths([run.model for run in each]) for kind, each in runs.items()})


def mean_lengths(models: Sequence[Transformer]) -> dict[str, float]:
    """Give the mean length of the vectors of each matrix, by its name, in all `models` together; PAD's is left out."""
    lengths = {}
    for name, _ in models[0].named_parameters():
        matrix = name.removesuffix(".weight").split(".")[-1]
        weights = torch.stack([model.get_parameter(name) for model in models])
        vectors = weights.norm(dim=1 if matrix in ("W_O", "W_out") else 2)
        lengths[matrix] = vectors[vectors > 0].mean().item()
    return lengths


def draw_cls_paths(model: Transformer, strings: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the path of CLS for each string; a wrong answer is named."""
    paths, classifier = model.trace(strings).cls_path, model.classifier.weight[0]
    return plots.plot_cls_paths(strings, paths, classifier, _wrong(model, strings), ax=ax)


def draw_cls_ends(model: Transformer, strings: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw where CLS ends for each string; a wrong answer is named."""
    ends, classifier = model.trace(strings).cls_path[:, -1:], model.classifier.weight[0]
    return plots.plot_cls_paths(strings, ends, classifier, _wrong(model, strings), ax=ax)


def draw_vectors(model: Transformer) -> Figure:
    """Draw all vectors of a model with `hidden_size` 2 as arrows: of tokens, of each head, of what comes after."""
    block, heads = model.self_attention_block, range(model.config.num_attention_heads)
    planes = {"tokens": dict(zip(model.tokenizer.vocabulary, model.embedding.weight, strict=True))}
    for head in heads:
        rows = {name: getattr(block, name).weight[head] for name in ("W_Q", "W_K", "W_V")}
        planes[f"head {head}"] = rows | {"W_O": block.W_O.weight[:, head]}
    after = {f"W_in {unit}": row for unit, row in enumerate(block.W_in.weight)}
    after |= {f"W_out {unit}": column for unit, column in enumerate(block.W_out.weight.T)}
    planes["feed-forward and classifier"] = after | {"classifier": model.classifier.weight[0]}
    axes = plt.subplots((len(planes) + 1) // 2, 2, figsize=(8, 3.2 * ((len(planes) + 1) // 2)))[1]
    for ax, (title, vectors) in zip(axes.flat, planes.items(), strict=False):
        plots.plot_arrows(vectors, title, ax)
    return axes.flat[0].figure


def draw_queries_and_keys(model: Transformer, string: str, axes: Sequence[Axes] | None = None) -> Figure | SubFigure:
    """Draw the query of CLS, the keys of a string and the attention weights, one strip a head."""
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


def draw_scores(model: Transformer) -> Figure:
    """Draw the scores of CLS and the letters with each other, before any mask, one table a head."""
    trace = _trace_heads(model, [model.tokenizer.letters])
    scores = trace.Q[0] @ trace.K[0].mT
    axes = plt.subplots(1, len(scores), figsize=(3.6 * len(scores), 3.4), squeeze=False)[1][0]
    for head, ax in enumerate(axes):
        plots.plot_scores(scores[head], ["CLS", *model.tokenizer.letters], f"head {head}", ax)
    return axes[0].figure


def draw_values(model: Transformer, strings: Sequence[str], thresholds: Mapping[int, float] | None = None) -> Figure:
    """Draw the value of each letter and the result for each string, one strip a head, with `thresholds` of heads."""
    letters = model.tokenizer.letters
    values, trace = _letter_values(model), model.trace(strings)
    axes = _strips(trace)
    for head, ax in enumerate(axes):
        threshold = (thresholds or {}).get(head)
        plots.plot_values(values[head], letters, strings, trace.means[:, head, 0, 0], head, threshold, ax)
    return axes[0].figure


def draw_logits(model: Transformer, patterns: Sequence[str], longest: int) -> Axes:
    """Draw the logit of patterns such as "a{N}b" for N from 1 to `longest`."""
    repeats = _repeats(longest)
    curves = {pattern: _trace_repeats(model, pattern, repeats).output_logits for pattern in patterns}
    return plots.plot_over_repeats(repeats, curves)


def draw_head(model: Transformer, head: int, patterns: Sequence[str], longest: int) -> Axes:
    """Draw the result of one head for patterns such as "ab{N}" for N from 1 to `longest`."""
    repeats = _repeats(longest)
    curves = {pattern: _trace_repeats(model, pattern, repeats).means[:, head, 0, 0] for pattern in patterns}
    levels = dict(zip(model.tokenizer.letters, _letter_values(model)[head], strict=True))
    return plots.plot_over_repeats(repeats, curves, f"result of head {head}", levels)


def draw_triangle(model: Transformer, strings: Sequence[str] = (), length: float = 1, ax: Axes | None = None) -> Axes:
    """Draw the logits of all proportions, and some strings among them.

    Of a model that attends to CLS or scales scores by length, `length` says for strings of how many letters.
    """
    edges = {edge: _logits_of(model, length * _edge(edge, np.linspace(0, 1, 400))) for edge in ("ab", "bc", "ac")}
    logits = _logits_of(model, length * maps.triangle_grid())
    return maps.plot_triangle(logits, edges, _shares(model, strings), _wrong(model, strings), ax)


def draw_log_ratios(model: Transformer, strings: Sequence[str] = (), decades: int = 4, ax: Axes | None = None) -> Axes:
    """Draw the logits of strings with an a and a b, by ratios of letters over some decades, and strings among them.

    Where the length matters as well, the logits are those of the shortest strings. Raises `ValueError` for a string
    without an a or a b, or beyond the decades.
    """
    for string in strings:
        a, b, c = model.tokenizer.counts(string)
        if not (a and b):
            raise ValueError(f"{string}: this map has only strings with an a and a b")
        if max(a, b, c or 1) > 10**decades * min(a, b, c or max(a, b)):
            raise ValueError(f"{string} lies beyond this map, which ends at {10**decades:,} of one letter for another")
    ratios, counts, without_c = maps.log_ratio_grid(decades)
    lengths, logits, logits_without_c = counts.sum(axis=-1), _logits_of(model, counts), _logits_of(model, without_c)
    marks, wrong = _shares(model, strings), _wrong(model, strings)
    return maps.plot_log_ratios(ratios, lengths, logits, logits_without_c, marks, wrong, ax)


def draw_horizon(model: Transformer) -> Axes:
    """Draw the map of `draw_log_ratios` with the shortest string that the model gets wrong, if it is not too long."""
    wrong = shortest_wrong_string(model)
    marked = wrong if wrong and min(wrong.counts[:2]) and wrong.length <= 10**5 else None
    ax = draw_log_ratios(model, [marked.string] if marked else [], decades=5)
    if marked and marked.length > 3:
        maps.add_length(ax, marked.length, decades=5)
    right_up_to = f"right about every string up to {wrong.length - 1 if wrong else SEARCHED_LENGTH:,} letters"
    ax.set_title(right_up_to)
    return plots.describe(ax, f"The model is {right_up_to}. {ax.words}")


def draw_panels(models: Mapping[str, tuple[Transformer, Sequence[str]]], panels: Sequence[str]) -> Figure:
    """Draw several pictures of each model with its strings, under a title; `panels` are names in `PANELS`.

    pyplot does not know of the figure, so that it can be made inside a style's context: a backend that starts there
    would stop showing figures when the context ends.
    """
    rows = -(-len(panels) // PANELS_BESIDE)
    columns = min(len(panels), PANELS_BESIDE)
    figure = Figure(figsize=(5.4 * columns, 4.6 * rows * len(models)))
    places = figure.subfigures(len(models), 1, squeeze=False)[:, 0]
    for (title, (model, strings)), place in zip(models.items(), places, strict=True):
        for panel, cell in zip(panels, place.subfigures(rows, columns, squeeze=False).flat, strict=False):
            PANELS[panel](model, strings, cell)
        place.suptitle(title, x=0.02, ha="left", fontsize=10)
    return figure


def _draw_embeddings_panel(model: Transformer, strings: Sequence[str], place: SubFigure) -> None:
    plots.plot_tokens(model.embedding.weight, model.tokenizer.vocabulary, ax=place.subplots())


def _draw_arrows_panel(model: Transformer, strings: Sequence[str], place: SubFigure) -> None:
    """The embeddings with the arrows that read them in head 0, and the letters projected onto W_K."""
    block, tokens = model.self_attention_block, model.tokenizer.vocabulary
    arrows = {f"{name}, head 0": getattr(block, name).weight[0] for name in ("W_Q", "W_K", "W_V")}
    ax = plots.plot_tokens(model.embedding.weight, tokens, arrows=arrows, ax=place.subplots())
    plots.add_projections(ax, model.embedding.weight[tokens.index("PAD") + 1 :], block.W_K.weight[0])


def _draw_heads_panel(model: Transformer, strings: Sequence[str], place: SubFigure) -> None:
    axes = place.subplots(model.config.num_attention_heads, squeeze=False)[:, 0]
    string, tokenizer = strings[0], model.tokenizer
    if len(tokenizer.parse(string)) > MAX_POSITIONS:
        string = tokenizer.short_form(tokenizer.counts(string))
    draw_queries_and_keys(model, string, axes.tolist())


def _draw_numbers_panel(model: Transformer, strings: Sequence[str], place: SubFigure) -> None:
    lines = []
    for name, numbers in numbers_of(model).items():
        for index, row in enumerate(np.atleast_2d(numbers)):
            lines.append(f"{name * (index == 0):<11}" + "".join(f"{number:8.2f}" for number in row))
    ax = place.subplots()
    ax.text(0, 1, "\n".join(lines), family="monospace", va="top")
    ax.axis("off")


PANELS = {
    "embeddings": _draw_embeddings_panel,
    "arrows": _draw_arrows_panel,
    "heads": _draw_heads_panel,
    "numbers": _draw_numbers_panel,
    "path": lambda model, strings, place: draw_cls_paths(model, strings, place.subplots()),
    "map": lambda model, strings, place: draw_triangle(model, strings, ax=place.subplots()),
}


def draw_horizon_by_epoch(trained: Mapping[str, TrainedModel]) -> Axes:
    """Draw the horizons of models after each epoch of their training."""
    horizons = {
        name: [horizon(model.model_at(epoch)) for epoch in range(1, len(model.weights))]
        for name, model in trained.items()
    }
    return plots.plot_horizon_by_epoch(horizons, {name: model.best_epoch for name, model in trained.items()})


def draw_horizons(sweeps: Mapping[str, Sequence[SweepRow]]) -> Axes:
    """Draw the horizons of swept seeds, one strip for each of the `IDEAS`, with what became of them."""
    kinds = {}
    for name, rows in sweeps.items():
        counts = "\n".join(f"{outcome}: {share}" for outcome, share in outcomes(rows).items())
        kinds[f"{IDEAS[name].title}\n({name})\n{counts}"] = rows
    horizons = {kind: [row.horizon or 0 for row in rows] for kind, rows in kinds.items()}
    perfect = {kind: [row.errors == 0 for row in rows] for kind, rows in kinds.items()}
    return plots.plot_horizons(horizons, perfect)


def _edge(letters: str, steps: np.ndarray) -> np.ndarray:
    """Shares on the way from one letter alone, at step 0, to another alone, at step 1."""
    shares = np.zeros((len(steps), 3))
    first, second = ("abc".index(letter) for letter in letters)
    shares[:, first], shares[:, second] = 1 - steps, steps
    return shares


def _shares(model: Transformer, strings: Sequence[str]) -> dict[str, np.ndarray]:
    counts = {string: np.array(model.tokenizer.counts(string)) for string in strings}
    return {string: row / row.sum() for string, row in counts.items()}


def _wrong(model: Transformer, strings: Sequence[str]) -> set[str]:
    return {string for string in strings if not is_right(model, string)}


def _trace_counts(model: Transformer, counts: np.ndarray) -> Trace:
    with torch.no_grad():
        return model(*from_counts(torch.from_numpy(counts)), num_queries=1)


def _logits_of(model: Transformer, counts: np.ndarray) -> np.ndarray:
    """The logits of letter counts, which are the last dimension; not a number where one is negative."""
    if model.tokenizer.letters != "abc":
        raise ValueError(f"letters {model.tokenizer.letters!r}: only models of a, b and c have such a picture")
    logits, inside = np.full(counts.shape[:-1], np.nan), (counts >= 0).all(axis=-1)
    logits[inside] = _trace_counts(model, counts[inside]).output_logits.numpy()
    return logits


def _strips(trace: Trace) -> Sequence[Axes]:
    num_heads = trace.V.shape[1]
    return plt.subplots(num_heads, 1, figsize=(7, 2.2 * num_heads), squeeze=False)[1][:, 0].tolist()


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
