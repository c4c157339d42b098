"""Pictures of all strings at once: each is a point, and its colour is the logit.

As in `plots`, functions take arrays and strings and `ax=None`, and return axes whose label has the picture in
words. Orange is the answer yes and purple the answer no; a black curve lies between them. Where only proportions
matter, each string of each length has its place in a triangle (a simplex; Aitchison 1982).
"""

from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.transforms import Transform
from numpy.typing import ArrayLike

from toy_transformer.pictures.plots import BEHIND_TEXT, INK, TOKEN_STYLES, describe

# The outer ends of the palette are left out: they are too dark for labels, and brown rather than orange.
YES_AND_NO = LinearSegmentedColormap.from_list("yes and no", plt.get_cmap("PuOr_r")(np.linspace(0.12, 0.82, 256)))
SCALE = Normalize(-12, 12)
"""The same for all maps; larger logits have the colours of the ends."""

CORNERS = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
"""Where the triangle has its corners a, b and c."""

EDGE_DISTANCE = 0.035
"""How far beside the triangle its edges are drawn."""


def triangle_grid(size: int = 300) -> Float[np.ndarray, "row column letter"]:
    """Give the shares of the letters at `size` × `size` points of a picture of the triangle.

    They are negative outside it and on its edges, which are drawn on their own.
    """
    x, y = np.meshgrid(*(np.linspace(0, end, size) for end in CORNERS.max(axis=0)))
    c = y / CORNERS[2, 1]
    b = x - c / 2
    shares = np.stack([1 - b - c, b, c], axis=-1)
    return np.where(shares > 1e-9, shares, -1)


def log_ratio_grid(
    decades: int, size: int = 300
) -> tuple[Float[np.ndarray, "size"], Float[np.ndarray, "size size letter"], Float[np.ndarray, "size letter"]]:
    """Give `size` ratios, as many decades below 1 as above, and the counts of strings with b and c in them to a.

    The rarest letter occurs once. The last of the three are the counts of strings without c.
    """
    ratios = np.logspace(-decades, decades, size)
    b, c = np.meshgrid(ratios, ratios)
    counts = np.stack([np.ones_like(b), b, c], axis=-1)
    without_c = np.stack([np.ones_like(ratios), ratios], axis=-1)
    counts, without_c = (array / array.min(axis=-1, keepdims=True) for array in (counts, without_c))
    return ratios, counts, np.pad(without_c, ((0, 0), (0, 1)))


def plot_triangle(
    logits: Float[ArrayLike, "row column"],
    edges: Mapping[str, Float[ArrayLike, "point"]],
    marks: Mapping[str, Float[ArrayLike, "letter"]],
    wrong: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the logits of all proportions of a, b and c in a triangle.

    `logits` belong to the points of `triangle_grid`, and are not a number outside. `edges` has logits of strings of
    two letters, such as "ab", in even steps from the first letter alone to the second alone. `marks` has the shares
    of some strings, `wrong` says which of them the model gets wrong.
    """
    ax = ax or plt.subplots(figsize=(6, 4.6))[1]
    ax.set_aspect("equal")
    ax.set_axis_off()
    columns, rows = (np.linspace(0, end, len(logits)) for end in CORNERS.max(axis=0))
    _shade(ax, columns, rows, logits)
    for edge, along in edges.items():
        start, end = (_beside(np.array([letter == corner for corner in "abc"]), edge) for letter in edge)
        points = np.linspace(start, end, len(along))
        strip = LineCollection(np.stack([points[:-1], points[1:]], axis=1), cmap=YES_AND_NO, norm=SCALE, linewidth=6)
        strip.set(array=np.asarray(along)[:-1], capstyle="projecting")
        ax.add_collection(strip)
    for letter, corner in zip("abc", CORNERS, strict=True):
        x, y = corner + 0.11 * (corner - CORNERS.mean(axis=0))
        _name_corner(ax, letter, x, y, ax.transData)
    ax.set(xlim=(-0.1, 1.1), ylim=(-0.1, 1))
    points = {}
    for string, shares in marks.items():
        letters = "".join(letter for letter, share in zip("abc", shares, strict=True) if share)
        points[string] = _beside(np.asarray(shares), letters)
    _mark(ax, points, wrong)
    along = ", ".join(
        f"{logits[0]:.1f} for {edge[0]} alone, {logits[len(logits) // 2]:.1f} for as many {edge[1]}"
        for edge, logits in edges.items()
    )
    words = f"Triangle of all proportions. Logits of two letters: {along}. Three letters: {_share_of_yes(logits)}"
    return describe(ax, f"{words}. {_tell(marks, wrong)}")


def plot_log_ratios(
    ratios: Float[ArrayLike, "size"],
    lengths: Float[ArrayLike, "size size"],
    logits: Float[ArrayLike, "size size"],
    without_c: Float[ArrayLike, "size"],
    marks: Mapping[str, Float[ArrayLike, "letter"]],
    wrong: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the logits of strings with all letters by how many b and how many c there are for each a.

    `ratios`, `lengths` and `logits` belong to `log_ratio_grid`; `without_c` are the logits of strings of a and b
    alone, drawn in a strip below. Strings of a certain length at most lie within a dashed curve. Of `marks`, the
    shares of some strings, those with an a and a b are drawn; `wrong` says which of them the model gets wrong.
    """
    ax = ax or plt.subplots(figsize=(6, 5.2))[1]
    ratios = np.asarray(ratios)
    _shade(ax, ratios, ratios, logits)
    ax.set(xscale="log", yscale="log", ylabel="c for each a")
    powers = 10.0 ** np.arange(np.log10(ratios[0]), np.log10(ratios[-1]) + 1).round()
    dashed = dict(levels=powers[powers > 1], colors=INK, linestyles="dashed", linewidths=0.8)
    curves = ax.contour(ratios, ratios, lengths, **dashed)
    ax.clabel(curves, fmt=lambda length: f"{length:,.0f} letters", fontsize=8)
    strip = ax.inset_axes([0, -0.1, 1, 0.06])
    strip.pcolormesh(ratios, [0, 1], np.stack([without_c] * 2), cmap=YES_AND_NO, norm=SCALE, shading="gouraud")
    strip.set(xscale="log", yticks=[0.5], yticklabels=["no c"], xlabel="b for each a", xlim=ax.get_xlim())
    for axis in (ax.xaxis, ax.yaxis, strip.xaxis):
        axis.set_ticks([0.0001, 0.01, 1, 100, 10_000], ["0.0001", "0.01", "1", "100", "10,000"])
        axis.set_ticks(powers, [""] * len(powers), minor=True)
    ax.xaxis.set_ticklabels([])
    ax.set(xlim=(ratios[0], ratios[-1]), ylim=(ratios[0], ratios[-1]))
    for letter, x, y in [("a", 0.03, 0.03), ("b", 0.97, 0.5), ("c", 0.5, 0.97)]:
        _name_corner(ax, letter, x, y, ax.transAxes)
    drawn = {string: shares for string, shares in marks.items() if shares[0] and shares[1]}
    for axes, has_c in [(ax, True), (strip, False)]:
        points = {s: np.array([y / x, z / x if z else 0.5]) for s, (x, y, z) in drawn.items() if (z > 0) == has_c}
        _mark(axes, points, wrong)
    words = f"Logits of strings with a, b and c, for each a up to {ratios[-1]:,.0f} b or c, and the other way round"
    return describe(ax, f"{words}: {_share_of_yes(logits)}. {_tell(drawn, wrong)}")


def plot_boxes(boxes: Sequence[tuple[Sequence[int], Sequence[int]]], num_b: int = 1, ax: Axes | None = None) -> Axes:
    """Draw, of `boxes` of letter counts, those that hold strings with a, c and `num_b` b: a slice through them all."""
    ax = ax or plt.subplots(figsize=(5, 4.4))[1]
    sliced = [(low, high) for low, high in boxes if low[0] and low[2] and low[1] <= num_b <= high[1]]
    for low, high in sliced:
        (left, _, lower), (right, _, upper) = np.array(low) - 0.5, np.array(high) + 0.5
        place = dict(facecolor=YES_AND_NO(0.7), edgecolor=INK, linewidth=0.8)
        ax.add_patch(Rectangle((left, lower), right - left, upper - lower, **place))
    longest = max(max(high) for _, high in boxes)
    ax.set(xscale="log", yscale="log", xlim=(0.5, 1.2 * longest), ylim=(0.5, 1.2 * longest))
    ax.set(xlabel="number of a", ylabel="number of c", aspect="equal", title=f"boxes with {num_b} b")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    listed = "; ".join(f"{low[0]:,} to {high[0]:,} a, {low[2]:,} to {high[2]:,} c" for low, high in sliced)
    return describe(ax, f"{len(sliced)} of {len(boxes)} boxes hold strings with {num_b} b: {listed}.")


def add_length(ax: Axes, length: int, decades: int) -> None:
    """Draw, into a picture of so many `decades`, the curve within which the strings of at most a `length` lie."""
    ratios, counts, _ = log_ratio_grid(decades)
    ax.contour(ratios, ratios, counts.sum(axis=-1), levels=[length], colors=[INK], linewidths=1.5, linestyles="dashdot")


def _beside(shares: np.ndarray, letters: str) -> np.ndarray:
    """Give the place of shares in the triangle, or beside it for strings of two letters, given in their order."""
    place = shares @ CORNERS
    if len(letters) != 2:
        return place
    outward = sum(CORNERS["abc".index(letter)] for letter in letters) / 2 - CORNERS.mean(axis=0)
    return place + EDGE_DISTANCE * outward / np.linalg.norm(outward)


def _shade(ax: Axes, x: np.ndarray, y: np.ndarray, logits: ArrayLike) -> None:
    logits = np.ma.masked_invalid(logits)
    image = ax.pcolormesh(x, y, logits, cmap=YES_AND_NO, norm=SCALE, shading="nearest", rasterized=True)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, extend="both", label="logit (above 0: yes)")
    if logits.min() < 0 < logits.max():
        ax.contour(x, y, logits, levels=[0], colors=["black"], linewidths=1.5)


def _name_corner(ax: Axes, letter: str, x: float, y: float, transform: Transform) -> None:
    style = dict(color=TOKEN_STYLES[letter][0], fontsize=13, weight="bold", bbox=BEHIND_TEXT)
    ax.text(x, y, letter, transform=transform, ha="center", va="center", **style)


def _mark(ax: Axes, points: Mapping[str, Float[np.ndarray, "2"]], wrong: Collection[str]) -> None:
    for string, point in points.items():
        marker = dict(marker="X", color="black") if string in wrong else dict(marker="o", color="white")
        ax.plot(*point, markeredgecolor="white" if string in wrong else "black", markersize=9, clip_on=False, **marker)
        left = ax.transData.transform(point)[0] > ax.transAxes.transform((0.49, 0))[0]
        offset, align = ((-7, 9), "right") if left else ((7, 9), "left")
        label = f"{string} wrong" if string in wrong else string
        place = dict(textcoords="offset points", va="bottom", ha=align, bbox=BEHIND_TEXT, annotation_clip=False)
        ax.annotate(label, point, offset, fontsize=9, **place)


def _share_of_yes(logits: ArrayLike) -> str:
    known = np.asarray(logits)[np.isfinite(logits)]
    return f"positive in {np.mean(known > 0):.1%} of the picture"


def _tell(marks: Collection[str], wrong: Collection[str]) -> str:
    verdicts = [f"{string} is {'wrong' if string in wrong else 'right'}" for string in marks]
    return f"Marked: {', '.join(verdicts)}." if verdicts else ""
