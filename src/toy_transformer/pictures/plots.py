"""Pictures of the model's numbers: arrays and strings in, `Axes` out.

Every function takes `ax=None` (then it makes a figure), returns the axes, and gives them the
picture's numbers in `words`, its text alternative. Colour and marker mean the same
everywhere; the palette is that of Okabe and Ito (2008), safe for colour-blind readers.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import cycle
from operator import add

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from numpy.typing import ArrayLike

TOKEN_STYLES = {
    "CLS": ("#555555", "D"),
    "PAD": ("#555555", "x"),
    "a": ("#0072B2", "o"),
    "b": ("#D55E00", "s"),
    "c": ("#009E73", "^"),
}
OTHER_LETTER_STYLE = ("#000000", "v")
HEAD_COLORS = ("#AA4499", "#806000")
LINE_STYLES = ("-", "--", ":", "-.")
INK, FAINT, POSITIVE_REGION = "#333333", "#BBBBBB", "#FFF3C4"
BEHIND_TEXT = dict(facecolor="white", edgecolor="none", pad=0.5)


def plot_tokens(
    vectors: ArrayLike,
    names: Sequence[str],
    room_for: ArrayLike | None = None,
    arrows: Mapping[str, ArrayLike] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one 2-dimensional vector for each token, by its name in `names`, as a point in the plane.

    `vectors` has shape (token, 2), or (epoch, token, 2) to draw the way to the last epoch as well. The
    axes leave room for `room_for`, of shape (..., 2), so that several pictures can have the same. `arrows` has further
    vectors by name.
    """
    paths = np.asarray(vectors, dtype=float)
    _check_two_dimensional(paths)
    ax, paths = _plane(ax), paths.reshape(-1, len(names), 2)
    for path, name in zip(paths.swapaxes(0, 1), names, strict=True):
        color, marker = _token_style(name)
        ax.plot(*path.T, color=color, alpha=0.6, linewidth=1, marker=".", markersize=3)
        ax.plot(*path[-1], color=color, marker=marker)
        _label_above_or_below(ax, path[-1], name, color)
    tips = np.array([np.asarray(arrow, dtype=float) for arrow in (arrows or {}).values()]).reshape(-1, 2)
    _frame(ax, np.concatenate([np.asarray(paths if room_for is None else room_for).reshape(-1, 2), tips]))
    for tip in tips:
        ax.annotate("", tip, (0, 0), arrowprops=dict(arrowstyle="-|>", color=HEAD_COLORS[0], shrinkA=0, shrinkB=0))
    if arrows:
        _label_at_right(ax, tips, list(arrows))
    ax.set(xlabel="dimension 0", ylabel="dimension 1")
    ways = [" to ".join(_vector(point) for point in path[[0, -1][-len(path) :]]) for path in paths.swapaxes(0, 1)]
    ends = [_vector(tip) for tip in tips]
    listed = [f"{name} {way}" for name, way in zip([*names, *(arrows or {})], ways + ends, strict=True)]
    return describe(ax, f"In the plane: {', '.join(listed)}.")


def add_projections(ax: Axes, points: ArrayLike, arrow: ArrayLike) -> None:
    """Draw the line through an `arrow`, dashed, and the way of each of the `points` (point, 2) to it, dotted."""
    points, arrow = np.asarray(points, dtype=float), np.asarray(arrow, dtype=float)
    if not arrow.any():
        return
    feet = np.outer(points @ arrow / (arrow @ arrow), arrow)
    ax.axline((0, 0), arrow, color=HEAD_COLORS[0], linewidth=0.8, linestyle="--", zorder=0)
    for point, foot in zip(points, feet, strict=True):
        ax.plot(*np.transpose([point, foot]), color=HEAD_COLORS[0], linewidth=1.2, linestyle=":", zorder=0)


def plot_cls_paths(
    strings: Sequence[str],
    paths: ArrayLike,
    classifier: ArrayLike,
    wrong: Collection[str] = (),
    step_names: Sequence[str] = ("attention", "feed-forward"),
    ax: Axes | None = None,
) -> Axes:
    """Draw what each step adds to CLS, for each string, and on which side of the boundary it ends.

    `paths` has shape (string, step + 1, 2) and begins with the embedding of CLS, or (string, 1, 2) for the ends alone;
    `classifier` has shape (2,); `wrong` has those strings that get a wrong answer; `step_names` says what is added
    between one point and the next.
    """
    paths, normal = np.asarray(paths, dtype=float), np.asarray(classifier, dtype=float)
    _check_two_dimensional(paths)
    ax = _plane(ax)
    _frame(ax, np.concatenate([paths.reshape(-1, 2), np.zeros((1, 2)), normal[None]]))
    _shade_positive(ax, normal)
    shortest = 0.02 * np.ptp(ax.get_xlim())  # of a shorter step one would see the arrowhead alone
    for path in paths:
        for start, end, style in zip(path, path[1:], cycle(LINE_STYLES), strict=False):
            head = "-|>" if np.abs(end - start).max() > shortest else "-"
            arrow = dict(arrowstyle=head, mutation_scale=8, linestyle=style, color=INK, shrinkA=0, shrinkB=3)
            ax.annotate("", end, start, arrowprops=arrow)
        ax.plot(*path[-1], "o", color=INK, markerfacecolor=INK if path[-1] @ normal > 0 else "white")
    logits = [f": logit {logit:.2f}" for logit in paths[:, -1] @ normal]
    answers = [logit + ", wrong" * (string in wrong) for string, logit in zip(strings, logits, strict=True)]
    labels = list(map(add, strings, answers))
    start, step_names = (paths[:1, 0], step_names) if paths.shape[1] > 1 else (paths[:0, 0], ())
    names = [*map(add, map(_short, strings), answers), *["CLS at the start"] * len(start)]
    _label_at_right(ax, np.concatenate([paths[:, -1], start]), names)
    color, marker = _token_style("CLS")
    ax.plot(*start.T, color=color, marker=marker)
    for name, style in zip(step_names, cycle(LINE_STYLES), strict=False):
        ax.plot([], [], linestyle=style, color=INK, label=f"+ {name}")
    ax.set(xlabel="dimension 0", ylabel="dimension 1")
    ax.plot([], [], color=FAINT, linewidth=2.5, label="classifier")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(step_names) + 1)
    ways = [f"{label}, {' to '.join(map(_vector, path))}" for label, path in zip(labels, paths, strict=True)]
    what = "The path of CLS, from its embedding on" if len(start) else "Where CLS ends"
    return describe(ax, f"{what}: {'; '.join(ways)}.")


def plot_arrows(vectors: Mapping[str, ArrayLike], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw 2-dimensional vectors by name as arrows from the origin, in a plane with a `title`."""
    points = np.array([np.asarray(vector, dtype=float) for vector in vectors.values()])
    _check_two_dimensional(points)
    ax = _plane(ax)
    _frame(ax, np.concatenate([points, np.zeros((1, 2))]))
    for name, point in zip(vectors, points, strict=True):
        arrow = dict(arrowstyle="-|>", color=_token_style(name)[0], shrinkA=0, shrinkB=0)
        ax.annotate("", point, (0, 0), arrowprops=arrow)
    _label_at_right(ax, points, list(vectors))
    ax.set(title=title)
    listed = ", ".join(f"{name} {_vector(point)}" for name, point in zip(vectors, points, strict=True))
    return describe(ax, f"Vectors of {title}: {listed}.")


def plot_query_and_keys(
    query: float, keys: ArrayLike, weights: ArrayLike, names: Sequence[str], head: int, ax: Axes | None = None
) -> Axes:
    """Draw one head of size 1 on a number line: the query of CLS above, the keys of a string below.

    `keys` and `weights` have shape (token,), `names` names the tokens. The attention weights stand beside
    the line as bars.
    """
    ax = ax or plt.subplots(figsize=(7, 2.2))[1]
    keys, weights = np.asarray(keys), np.asarray(weights)
    color = HEAD_COLORS[head % len(HEAD_COLORS)]
    arrow = dict(arrowstyle="-|>", color=color, linewidth=2, shrinkA=0, shrinkB=0)
    _number_line(ax, np.append(keys, [query, 0]), f"head {head}: query and keys")
    ax.annotate("", (query, 0.28), (0, 0.28), arrowprops=arrow)
    ax.plot([query, query], [0, 0.28], color=color, linewidth=0.8, linestyle=":")
    ax.plot([0, 0], [0, 0.28], color=color, linewidth=0.8, linestyle=":")
    ax.text(query / 2, 0.36, f"query of CLS {query:.2f}", color=color, ha="center", va="bottom", bbox=BEHIND_TEXT)
    _points_below(ax, keys, names, hollow={name for name, weight in zip(names, weights, strict=True) if weight == 0})
    longest = max(map(len, map(_short, names)))
    room = (0.65 * longest * plt.rcParams["font.size"] + 10) / _width_in_points(ax)
    _weight_bars(ax.inset_axes([1 + room, 0.0, 0.32, 1.0]), weights, names)
    listed = ", ".join(
        f"{name} {key:.2f} (weight {_weight(w)})" for name, key, w in zip(names, keys, weights, strict=True)
    )
    return describe(ax, f"Head {head}: query of CLS {query:.2f}; keys {listed}.")


def plot_scores(scores: ArrayLike, names: Sequence[str], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the scores of all queries with all keys as a table of colours and numbers.

    `scores` has shape (query, key); `names` names the tokens, `title` the head.
    """
    ax = ax or plt.subplots(figsize=(3.6, 3.2))[1]
    scores = np.asarray(scores, dtype=float)
    largest = np.abs(scores).max()
    ax.imshow(scores, cmap="PuOr_r", vmin=-1.6 * largest, vmax=1.6 * largest)
    for (query, key), score in np.ndenumerate(scores):
        ax.text(key, query, f"{score:.2f}", ha="center", va="center", bbox=BEHIND_TEXT)
    ax.set(xticks=range(len(names)), xticklabels=names, yticks=range(len(names)), yticklabels=names)
    ax.set(xlabel="key of", ylabel="query of", title=title)
    ax.tick_params(length=0)
    rows = [
        f"query of {name}: {', '.join(f'{key} {score:.2f}' for key, score in zip(names, row, strict=True))}"
        for name, row in zip(names, scores, strict=True)
    ]
    return describe(ax, f"{title}. Scores by key: {'; '.join(rows)}.")


def plot_values(
    values: ArrayLike,
    names: Sequence[str],
    strings: Sequence[str],
    means: ArrayLike,
    head: int,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one head of size 1 on a number line: the tokens' values below, each string's result above.

    `values` has shape (token,), `names` names the tokens; `means` has shape (string,). A `threshold` is marked.
    """
    ax = ax or plt.subplots(figsize=(7, 2.2))[1]
    color = HEAD_COLORS[head % len(HEAD_COLORS)]
    _number_line(ax, np.append(values, means), f"head {head}: values")
    if threshold is not None:
        ax.axvline(threshold, color=INK, linestyle="--", linewidth=1, zorder=0)
        ax.text(threshold, -0.95, f" threshold {threshold:g} ", ha="right", va="bottom")
    _points_below(ax, values, names)
    labels = [f"{string} {value:.2f}" for string, value in zip(strings, means, strict=True)]
    places = _spread_labels(ax, means, map(_short, labels))
    for x, place, label in zip(means, places, labels, strict=True):
        ax.annotate(
            _short(label),
            (x, 0.03),
            (place, 0.4),
            color=color,
            ha="center",
            va="bottom",
            bbox=BEHIND_TEXT,
            arrowprops=dict(arrowstyle="-|>", color=color, linewidth=1, shrinkA=0, shrinkB=0),
        )
    listed = ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values, strict=True))
    marked = "" if threshold is None else f"; threshold {threshold:g}"
    return describe(ax, f"Head {head}: values {listed}; results {', '.join(labels)}{marked}.")


def plot_over_repeats(
    repeats: ArrayLike,
    curves: Mapping[str, ArrayLike],
    ylabel: str = "logit",
    levels: Mapping[str, float] | None = None,
    xlabel: str = "number of repeats N",
    ax: Axes | None = None,
) -> Axes:
    """Draw numbers that depend on how often a letter is repeated, on a log axis.

    `repeats` has shape (point,), and so has each curve; a curve's name, such as "a{N}b", is its label.
    `ylabel` says what the numbers are; of logits, the region of the answer yes is shaded. `levels` names heights to
    mark, such as the value of each token; `xlabel` what is along the other axis.
    """
    if len(curves) > len(LINE_STYLES):
        raise ValueError(f"{len(curves)} curves: expected at most {len(LINE_STYLES)}, which can be told apart")
    ax = ax or plt.subplots(figsize=(7, 3.4))[1]
    words, (counted, n) = [], xlabel.rsplit(" ", 1)
    for (name, curve), style in zip(curves.items(), LINE_STYLES, strict=False):
        ax.semilogx(repeats, curve, linestyle=style, color=INK, label=name)
        words.append(f"{name} from {curve[0]:.2f} at {n} = {repeats[0]} to {curve[-1]:.2f} at {n} = {repeats[-1]}")
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(repeats[0], repeats[-1]))
    if ylabel == "logit":
        _shade_answers(ax)
    if levels:
        for name, level in levels.items():
            ax.axhline(level, color=_token_style(name)[0], linewidth=0.8)
        heights = np.array([[repeats[-1], level] for level in levels.values()])
        ax.margins(y=0.1)
        _label_at_right(ax, heights, [f"value of {name} {level:.2f}" for name, level in levels.items()])
        words.append(", ".join(f"value of {name} {level:.2f}" for name, level in levels.items()))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(curves))
    return describe(ax, f"{ylabel[0].upper()}{ylabel[1:]} by {counted}: {'; '.join(words)}.")


def plot_plane_in_space(
    points: ArrayLike, names: Sequence[str], axes: ArrayLike, places: Sequence[Axes] = ()
) -> tuple[Axes, ...]:
    """Draw points in space and a plane through the origin, once from above it and once along its second axis.

    `points` has shape (point, 3); `names` are theirs. `axes` has shape (3, 3): a row for each of three unit vectors at
    right angles, of which the first two lie in the plane. `places` are two axes to draw on.
    """
    steps = np.asarray(points, dtype=float) @ np.transpose(axes)
    places = places or plt.subplots(1, 2, figsize=(9, 3.8), sharex=True, sharey=True)[1]
    for ax, other, title in zip(places, [1, 2], ["seen from above", "seen from the edge"], strict=True):
        ax.axhline(0, color=FAINT, linewidth=2.5 if other == 2 else 0.8, zorder=0)
        ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
        ax.plot(steps[:, 0], steps[:, other], "o", color=INK)
        ax.plot(0, 0, "+", color=INK, markersize=12)
        ax.annotate("origin", (0, 0), (6, -14), textcoords="offset points")
        for name, point in zip(names, steps[:, [0, other]], strict=True):
            ax.annotate(name, point, (0, 6), textcoords="offset points", ha="center")
        ax.set(title=title, aspect="equal", xlabel="steps along axis 1", ylabel=f"steps along axis {other + 1}")
        ax.margins(0.15)
        ax.yaxis.set_tick_params(labelleft=True)
    listed = "; ".join(f"{name} ({', '.join(f'{x:.2f}' for x in row)})" for name, row in zip(names, steps, strict=True))
    describe(places[0], f"Points in space and the plane that is nearest to them. Steps along the three axes: {listed}.")
    return tuple(places)


def plot_lengths(
    starts: Mapping[str, Mapping[str, float]], lengths: Mapping[str, Mapping[str, float]], ax: Axes | None = None
) -> Axes:
    """Draw one bar for each kind of model and each weight matrix: the mean length of its vectors.

    `lengths` has, for each kind of model, a number for each matrix; `starts` has those before the training, points.
    """
    ax = ax or plt.subplots(figsize=(7, 5))[1]
    matrices = list(next(iter(lengths.values())))
    height, words = 0.8 / len(lengths), []
    for i, (kind, numbers) in enumerate(lengths.items()):
        rows = np.arange(len(matrices)) + (i - (len(lengths) - 1) / 2) * height
        ax.barh(rows, [numbers[matrix] for matrix in matrices], height, label=kind, **_bar_style(i))
        before = [starts[kind][matrix] for matrix in matrices]
        ax.plot(before, rows, "D", color=HEAD_COLORS[0], markeredgecolor="white", markersize=6)
        listed = [f"{m} {x:.2f} to {numbers[m]:.2f}" for m, x in zip(matrices, before, strict=True)]
        words.append(f"{kind}: {', '.join(listed)}")
    ax.plot([], [], "D", color=HEAD_COLORS[0], markeredgecolor="white", markersize=6, label="at the start")
    ax.set(yticks=range(len(matrices)), yticklabels=matrices, xlabel="mean length of a vector")
    ax.invert_yaxis()
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return describe(ax, f"Mean length of the vectors of each matrix, from the start to the end. {'; '.join(words)}.")


def plot_horizons(
    horizons: Mapping[str, ArrayLike],
    perfect: Mapping[str, ArrayLike],
    ax: Axes | None = None,
) -> Axes:
    """Draw one strip of points for each kind of model, one point for each model at its horizon, on a log axis.

    `perfect` says of each model whether it has no test errors: these are filled points. A bar is the
    median of its kind.
    """
    ax = ax or plt.subplots(figsize=(7, 1.2 * len(horizons) + 1))[1]
    labels, words = [], []
    for row, (kind, lengths) in enumerate(horizons.items()):
        lengths, filled = np.asarray(lengths), np.asarray(perfect[kind], dtype=bool)
        # Neighbours in length lie at different heights.
        heights = row + 0.28 * ((np.argsort(np.argsort(lengths, kind="stable")) * 0.618) % 1 - 0.5) * 2
        for chosen, color in [(filled, INK), (~filled, "white")]:
            style = dict(color=color, markeredgecolor=INK, markersize=5)
            ax.plot(_on_log_axis(lengths[chosen]), heights[chosen], "o", **style)
        median = np.median(lengths)
        ax.plot([_on_log_axis(median)] * 2, [row - 0.4, row + 0.4], color=HEAD_COLORS[0], linewidth=3, zorder=0)
        labels.append(f"{kind}\nmedian: {median:,.0f}")
        words.append(f"{kind}: median {median:,.0f}, from {lengths.min():,} to {lengths.max():,}")
    ax.plot([], [], "o", color=INK, markersize=5, label="no test errors")
    ax.plot([], [], "o", color="white", markeredgecolor=INK, markersize=5, label="test errors")
    ax.plot([], [], color=HEAD_COLORS[0], linewidth=3, label="median")
    _count_from_zero(ax, ax.xaxis, [length for lengths in horizons.values() for length in lengths])
    ax.set(xlabel="right about every string up to this length", yticks=range(len(horizons)))
    ax.set(yticklabels=labels, ylim=(len(horizons) - 0.5, -0.5))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return describe(ax, f"Horizons of models. {'; '.join(words)}.")


def plot_horizon_by_epoch(
    horizons: Mapping[str, Sequence[int]], best_epochs: Mapping[str, int], ax: Axes | None = None
) -> Axes:
    """Draw the horizons of models after each epoch, from epoch 1 on, on a log axis; `best_epochs` are marked."""
    if len(horizons) > len(LINE_STYLES):
        raise ValueError(f"{len(horizons)} models: expected at most {len(LINE_STYLES)}, which can be told apart")
    ax = ax or plt.subplots(figsize=(7, 3))[1]
    words = []
    for (name, lengths), style in zip(horizons.items(), LINE_STYLES, strict=False):
        epochs, best = np.arange(1, len(lengths) + 1), best_epochs[name]
        ax.plot(epochs, _on_log_axis(lengths), f"o{style}", color=INK, markersize=4, linewidth=1, label=name)
        ax.plot(best, _on_log_axis(lengths[best - 1]), "D", color=HEAD_COLORS[0])
        words.append(f"{name}: {', '.join(f'{length:,}' for length in lengths)}; kept: epoch {best}")
    ax.plot([], [], "D", color=HEAD_COLORS[0], label="kept: least validation loss")
    ax.set(xlabel="epoch", ylabel="horizon", xticks=range(1, 1 + max(map(len, horizons.values()))))
    _count_from_zero(ax, ax.yaxis, [length for lengths in horizons.values() for length in lengths])
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return describe(ax, f"Horizon by epoch, from epoch 1 on. {'. '.join(words)}.")


def _on_log_axis(lengths: ArrayLike) -> np.ndarray:
    """Lengths as they are drawn: 0 has a place of its own, left of 1."""
    return np.maximum(lengths, 0.3)


def _count_from_zero(ax: Axes, axis: Axis, lengths: Sequence[int]) -> None:
    """Make an axis logarithmic, with a tick for 0 and one for each power of ten, written out."""
    powers = 10 ** np.arange(np.ceil(np.log10(max(*lengths, 10))) + 1)
    ticks = [0, *powers] if min(lengths) < 1 else [power for power in powers if 10 * power > min(lengths)]
    (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)("log")
    labels = [f"{tick:,.0f}" for tick in ticks]
    if axis is ax.xaxis and len(ticks) > 6:  # there is room for every other one
        labels[-2:0:-2] = [""] * len(labels[-2:0:-2])
    axis.set_ticks(_on_log_axis(ticks), labels)
    axis.set_ticks([], minor=True)


def _bar_style(i: int) -> dict:
    """Bars that can be told apart without colour."""
    return [
        dict(color=INK, edgecolor=INK),
        dict(color="white", edgecolor=INK, hatch="///"),
        dict(color=FAINT, edgecolor=INK),
        dict(color="white", edgecolor=INK, hatch="...."),
    ][i]


def _shade_answers(ax: Axes) -> None:
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, -1), max(high, 1) + 0.2 * (high - low))
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.axhspan(0, ax.get_ylim()[1], color=POSITIVE_REGION, zorder=0)
    for text, offset in [("↑ yes", 9), ("↓ no", -9)]:
        place = dict(xycoords=("axes fraction", "data"), textcoords="offset points", va="center")
        ax.annotate(text, (1, 0), (5, offset), color=INK, **place)


def _token_style(name: str) -> tuple[str, str]:
    """Give the colour and marker of a token: "CLS", "b" and "b{100}" each have one."""
    return TOKEN_STYLES.get(name.split("{")[0], OTHER_LETTER_STYLE)


def _vector(point: ArrayLike) -> str:
    return f"({point[0]:.2f}, {point[1]:.2f})"


def _short(label: str) -> str:
    """Leave out the middle of a label that is too long for a picture; its words have all of it."""
    return label if len(label) <= 24 else f"{label[:9]}…{label[-14:]}"


def _weight(weight: float) -> str:
    if weight == 0:
        return "0"
    if weight < 1e-8:  # the second digit is another one on another processor
        return f"{weight:.0e}"
    return f"{weight:.4f}" if weight >= 1e-3 else f"{weight:.1e}"


def _check_two_dimensional(vectors: np.ndarray) -> None:
    if vectors.shape[-1] != 2:
        raise ValueError(f"vectors of {vectors.shape[-1]} numbers: only those of 2 can be drawn in a plane")


def describe(ax: Axes, words: str) -> Axes:
    """Give the axes their text alternative: the picture in words, on one line."""
    ax.words = " ".join(words.split())
    return ax


def _plane(ax: Axes | None) -> Axes:
    ax = ax or plt.subplots(figsize=(5.6, 5))[1]
    ax.set_aspect("equal", adjustable="box")
    ax.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    return ax


def _frame(ax: Axes, points: np.ndarray) -> None:
    """Choose limits around the points with room for their labels, equally scaled."""
    low, high = points.min(axis=0), points.max(axis=0)
    side = max(high - low) * 1.35 + 0.5
    middle = (low + high) / 2
    ax.set_xlim(middle[0] - side / 2, middle[0] + side / 2)
    ax.set_ylim(middle[1] - side / 2, middle[1] + side / 2)


def _label_above_or_below(ax: Axes, point: ArrayLike, text: str, color: str) -> None:
    """Write a label above a point in the upper half-plane, and below one in the lower."""
    x, y = point
    above = y >= 0
    ax.annotate(
        text,
        point,
        (0, 9 if above else -9),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "top",
        color=color,
        bbox=BEHIND_TEXT,
        zorder=4,  # in front of arrows
    )


def _shade_positive(ax: Axes, normal: np.ndarray) -> None:
    """Shade the half-plane where the logit is positive, and draw the arrow that points into it."""
    x, y = np.meshgrid(ax.get_xlim(), ax.get_ylim())
    logits = normal[0] * x + normal[1] * y
    ax.contourf(x, y, logits, levels=[0, max(logits.max(), 1)], colors=[POSITIVE_REGION], zorder=-2)
    ax.contour(x, y, logits, levels=[0], colors=[INK], linewidths=1, zorder=-1)
    ax.annotate("", normal, (0, 0), arrowprops=dict(arrowstyle="-|>", color=FAINT, linewidth=2.5, shrinkA=0, shrinkB=0))


def _number_line(ax: Axes, numbers: ArrayLike, title: str) -> None:
    low, high = min(np.min(numbers), 0), max(np.max(numbers), 0)
    room = 0.18 * (high - low) + 0.3
    ax.set(xlim=(low - room, high + room), ylim=(-1, 1), yticks=[], title=title)
    ax.axhline(0, color=INK, linewidth=1, zorder=0)
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.spines["left"].set_visible(False)


def _points_below(ax: Axes, numbers: ArrayLike, names: Sequence[str], hollow: Container[str] = ()) -> None:
    """Mark the tokens on the line; write their names below it, apart where the points are close.

    A letter that occurs several times has one point, for its number is the same each time.
    """
    points = dict(zip(names, np.asarray(numbers, dtype=float), strict=True))
    labels = [f"{name} ×{names.count(name)}" if names.count(name) > 1 else _short(name) for name in points]
    labels = [f"{label}\n{x:.2f}" for label, x in zip(labels, points.values(), strict=True)]
    places = _spread_labels(ax, list(points.values()), labels)
    for (name, x), label, place in zip(points.items(), labels, places, strict=True):
        color, marker = _token_style(name)
        ax.plot(x, 0, color=color, marker=marker, markerfacecolor="white" if name in hollow else color)
        ax.plot([x, place], [-0.08, -0.42], color=color, linewidth=0.8)
        ax.text(place, -0.45, label, color=color, ha="center", va="top", bbox=BEHIND_TEXT)


def _weight_bars(ax: Axes, weights: ArrayLike, names: Sequence[str]) -> None:
    rows = range(len(names))
    ax.barh(rows, weights, color=[_token_style(name)[0] for name in names], height=0.6)
    for row, weight in zip(rows, weights, strict=True):
        ax.text(weight + 0.04, row, _weight(weight), va="center", fontsize=9)
    ax.set(xlim=(0, 1.5), xticks=[], yticks=rows, yticklabels=map(_short, names), title="attention weights")
    ax.invert_yaxis()
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _label_at_right(ax: Axes, points: np.ndarray, labels: Sequence[str]) -> None:
    """Write labels one above the other, right of the picture, each with a thin line to its point."""
    low, high = ax.get_ylim()
    height = ax.bbox.height * 72 / ax.get_figure(root=True).dpi
    places = _spread(points[:, 1], 1.5 * plt.rcParams["font.size"] * (high - low) / height, low, high)
    edge = ax.get_xlim()[1]
    for (x, y), place, label in zip(points, places, labels, strict=True):
        ax.plot([x, edge], [y, place], color=FAINT, linewidth=0.7, clip_on=False, zorder=-1)
        ax.annotate(label, (edge, place), (4, 0), textcoords="offset points", va="center", annotation_clip=False)


def _spread_labels(ax: Axes, positions: ArrayLike, labels: Iterable[str]) -> np.ndarray:
    """Move the centres of labels along the x-axis until none covers another, or leaves the picture."""
    low, high = ax.get_xlim()
    longest_lines = np.array([max(map(len, label.splitlines())) for label in labels])
    points = longest_lines * 0.68 * plt.rcParams["font.size"] + 6
    return _spread(positions, points * (high - low) / _width_in_points(ax), low, high)


def _width_in_points(ax: Axes) -> float:
    return ax.bbox.width * 72 / ax.get_figure(root=True).dpi


def _spread(positions: ArrayLike, widths: ArrayLike, low: float, high: float) -> np.ndarray:
    """Move the centres of things with `widths` apart as little as possible (least squares) until none covers another.

    They end between `low` and `high`, or where there is no room for all, from `low` on. With x the sorted positions
    and s the centres of the things side by side, x_i − s_i must not decrease: isotonic regression.
    """
    from scipy.optimize import isotonic_regression  # loads for a quarter of a second, and few pictures need it

    positions, widths = np.asarray(positions, dtype=float), np.broadcast_to(widths, len(positions))
    order = np.argsort(positions, kind="stable")
    ends = np.cumsum(widths[order])
    side_by_side = ends - widths[order] / 2
    fit = isotonic_regression(positions[order] - side_by_side).x
    places = np.empty(len(positions))
    places[order] = np.clip(fit, low, max(low, high - ends[-1])) + side_by_side
    return places
