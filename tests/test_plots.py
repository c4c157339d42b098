import html
import re
from io import BytesIO
from itertools import combinations

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.text import Text

import figures
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.pictures import LivePicture, Picture, maps, plots, views
from toy_transformer.pictures.picture import words_of
from toy_transformer.task import Task
from toy_transformer.weights import build

HORIZONS = {"hidden_size 2": [0, 66, 66, 2166], "hidden_size 16, 16 heads": [226, 10**6, 392, 19487]}
POINTS = np.array([[8.3, -0.1, -4.5], [-1.0, 3.0, -2.3], [-4.5, 6.1, -4.2], [-8.2, 7.0, -2.8], [2.2, 2.0, -3.1]])
AXES = np.array([[0.83, -0.55, 0.13], [0.44, 0.49, -0.75], [0.35, 0.68, 0.64]])
BOXES = [((1, 1, 1), (9, 2, 3000)), ((10, 1, 1), (2000, 1, 30)), ((10, 2, 1), (2000, 2, 30)), ((1, 0, 1), (9, 0, 30))]
PERFECT = {"hidden_size 2": [False, False, True, True], "hidden_size 16, 16 heads": [True, True, True, False]}

VIEWS = {
    "embeddings": lambda run: views.draw_embeddings(run),
    "embeddings at epoch 0": lambda run: views.draw_embeddings(run, 0),
    "paths": lambda run: views.draw_cls_paths(run.model, ["aac", "baac", "c", "ab{1000}"]),
    "paths that end together": lambda run: views.draw_cls_paths(run.model, ["ab", "aabb", "ba", "a", "aa", "b{7}"]),
    "ends": lambda run: views.draw_cls_ends(run.model, ["ab", "a", "b", "c", "abc{3000}"]),
    "queries and keys": lambda run: views.draw_queries_and_keys(run.model, "baac"),
    "queries and keys with counts": lambda run: views.draw_queries_and_keys(run.model, "ab{1000000}c"),
    "scores": lambda run: views.draw_scores(run.model),
    "values": lambda run: views.draw_values(run.model, ["aac", "baac"]),
    "values of close strings": lambda run: views.draw_values(run.model, ["ab", "a", "b", "c"]),
    "logits": lambda run: views.draw_logits(run.model, ["a{N}b", "ab{N}", "abc{N}"], 10**8),
    "head": lambda run: views.draw_head(run.model, 0, ["bc{N}"], 10_000),
    "lengths": lambda run: views.draw_lengths({"one": [run], "again": [run]}),
    "vectors": lambda run: views.draw_vectors(run.model),
    "triangle": lambda run: views.draw_triangle(run.model, ["aac", "baac", "ab{66}", "abc{3000}"]),
    "ratios": lambda run: views.draw_log_ratios(run.model, ["baac", "ab{66}", "abc{3000}"]),
    "horizon": lambda run: views.draw_horizon(run.model),
    "no horizon": lambda run: views.draw_horizon(run.model.with_length_scaling(1.0)),
    "horizon by epoch": lambda run: views.draw_horizon_by_epoch({"one": run, "again": run}),
    "plane in space": lambda run: _plane_in_space()[0],
    "horizons": lambda run: plots.plot_horizons(HORIZONS, PERFECT),
    "boxes": lambda run: maps.plot_boxes(BOXES),
}


def _plane_in_space() -> tuple[Axes, ...]:
    return plots.plot_plane_in_space(POINTS, ["ab", "a", "b", "c", "ac"], AXES)


@pytest.fixture(params=["walkthrough", "generalization_errors"])
def run(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("view", VIEWS)
def test_no_label_covers_another_and_words_say_the_numbers(run, view):
    """In every picture of the notebooks, and some harder ones, for both models."""
    drawn = VIEWS[view](run)
    figure = drawn.figure if isinstance(drawn, Axes) else drawn
    figure.draw_without_rendering()
    texts = [
        t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t.get_window_extent().width
    ]
    ticks = {label for ax in figure.findobj(Axes) for label in ax.get_xticklabels() + ax.get_yticklabels()}
    boxes = [(t.get_text(), t.get_window_extent().padded(-1)) for t in texts if t not in ticks]
    assert len(boxes) >= 2
    overlapping = [(one, two) for (one, box), (two, other) in combinations(boxes, 2) if box.overlaps(other)]
    assert overlapping == []
    assert len(re.findall(r"\d[.,]\d|\d%|\d, \d", words_of(figure))) >= 2


def test_pictures_draw_the_numbers_they_are_given(walkthrough):
    model = walkthrough.model
    ax = views.draw_embeddings(walkthrough)
    points = [line.get_xydata()[0] for line in ax.lines if line.get_marker() in "Dxos^" and len(line.get_xydata()) == 1]
    np.testing.assert_allclose(points, model.embedding.weight, atol=1e-6)

    trace = model.trace(["baac"])
    strips = [
        ax for ax in views.draw_queries_and_keys(model, "baac").axes if ax.get_title(loc="left").startswith("head")
    ]
    for head, ax in enumerate(strips):
        bars = [bar.get_width() for bar in ax.child_axes[0].patches]
        np.testing.assert_allclose(bars, trace.attention_weights[0, head, 0])
        drawn = [line.get_xdata()[0] for line in ax.lines if line.get_marker() in "Dxos^"]
        np.testing.assert_allclose(drawn, trace.K[0, head, [0, 1, 2, 4], 0], rtol=1e-6)

    ends = [
        line.get_xydata()[0] for line in views.draw_cls_paths(model, ["aac", "baac"]).lines if line.get_marker() == "o"
    ]
    np.testing.assert_allclose(ends, model.trace(["aac", "baac"]).transformed_embeddings[:, 0], rtol=1e-6)


def test_letters_are_projected_onto_the_arrow_that_makes_their_keys(walkthrough):
    model = walkthrough.model
    figure = views.draw_panels({"seed 5": (model, ["baac"])}, ["arrows"])
    (ax,) = figure.findobj(Axes)
    ways = np.array([line.get_xydata() for line in ax.lines if line.get_linestyle() == ":"])
    arrow = model.self_attention_block.W_K.weight[0].numpy()
    np.testing.assert_allclose(ways[:, 0], model.embedding.weight[2:])
    np.testing.assert_allclose((ways[:, 1] - ways[:, 0]) @ arrow, 0, atol=1e-6)
    np.testing.assert_allclose(ways[:, 1] @ arrow, model.trace(["abc"]).K[0, 0, 1:, 0], rtol=1e-5)
    np.testing.assert_allclose(ways[:, 1] @ [-arrow[1], arrow[0]], 0, atol=1e-6)
    views.draw_panels({"no keys": (build(EXACT), ["baac"])}, ["arrows"])


def test_from_the_edge_of_a_plane_heights_are_seen():
    heights, (above, edge) = POINTS @ AXES[2], _plane_in_space()
    for ax in (above, edge):
        (points,) = [line for line in ax.lines if line.get_marker() == "o"]
        assert np.allclose(points.get_ydata(), heights, rtol=0, atol=1e-9) == (ax is edge)


def test_functions_draw_where_they_are_told(walkthrough):
    _, (left, right) = plt.subplots(1, 2)
    assert plots.plot_tokens([[0, 1], [1, 2]], "ab", ax=left) is left
    assert views.draw_cls_paths(walkthrough.model, ["ab"], left) is left


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.01, 10)), min_size=1, max_size=12))
def test_spread_keeps_the_order_and_the_distance(things):
    positions, widths = np.array(things).T
    order = np.argsort(positions, kind="stable")
    distances = (widths[order][1:] + widths[order][:-1]) / 2
    places, inside = plots._spread(positions, widths, -1000, 1000), plots._spread(positions, widths, -5, 130)
    assert (np.diff(places[order]) >= distances - 1e-9).all() and (np.diff(inside[order]) >= distances - 1e-9).all()
    assert (inside - widths / 2).min() >= -5 - 1e-9 and (inside + widths / 2).max() <= 130 + 1e-9
    assert np.mean(places) == pytest.approx(np.mean(positions), abs=1e-6)
    if (np.diff(positions[order]) > distances).all():
        np.testing.assert_allclose(places, positions, atol=1e-9)


def test_a_picture_carries_its_words(walkthrough, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "toy_transformer.pictures.picture.display", lambda data, **options: shown.append((data, options))
    )
    picture = Picture(views.draw_cls_paths(walkthrough.model, ["ab", "c"]))
    picture._ipython_display_()
    (image, options), (words, _) = shown
    assert image["text/plain"] == options["metadata"]["image/png"]["alt"] == picture.words
    assert html.escape(picture.words) in words["text/html"]
    assert plt.get_fignums() == []


def test_a_live_picture_follows_its_control(walkthrough):
    control = widgets.Text("ab")
    live = LivePicture(control, lambda text: views.draw_cls_paths(walkthrough.model, views.split_strings(text)))
    before = live.view.value
    control.value = "ab, c"
    after = live.view.value
    assert before != after and "c: logit" in live.picture.words
    assert f'alt="{html.escape(live.picture.words)}"' in after

    control.value = "ab, <x>"
    assert live.view.value == after, "the last good picture stays"
    assert "position 0: expected one of the letters a, b, c" in live.message.value
    assert "<x>" not in live.message.value and "alert" in live.message.value

    control.value = "c"
    assert live.message.value == "" and live.view.value != after


def test_a_live_picture_is_saved_as_a_picture(walkthrough):
    live = LivePicture(widgets.BoundedIntText(1, min=0, max=8), lambda epoch: views.draw_embeddings(walkthrough, epoch))
    bundle, metadata = live._repr_mimebundle_()
    assert metadata == {"image/png": {"alt": live.picture.words, "width": live.picture.width}}
    assert bundle["text/plain"] == live.picture.words
    assert set(bundle) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert plt.get_fignums() == []


def test_any_error_of_a_live_picture_is_shown_and_leaves_no_figure():
    def draw(text):
        ax = plt.subplots()[1]
        return ax.set_title(1 / len(text)).axes

    control = widgets.Text("ab")
    live = LivePicture(control, draw)
    control.value = ""
    assert "division by zero" in live.message.value
    assert plt.get_fignums() == []
    with pytest.raises(ZeroDivisionError):
        LivePicture(widgets.Text(""), draw)
    assert plt.get_fignums() == []


def test_pictures_do_not_need_the_style_to_be_set(walkthrough):
    styled = Picture(views.draw_cls_paths(walkthrough.model, ["ab"]))
    with plt.style.context("default"):
        plain = Picture(views.draw_cls_paths(walkthrough.model, ["ab"]))
    assert plain.width == pytest.approx(styled.width, rel=0.3)


def test_long_strings_are_shortened_in_the_picture_only(walkthrough):
    strings = ["a{500000000000000000}b{499999999999999999}c", "b", "c"]
    for figure in (
        views.draw_cls_paths(walkthrough.model, strings).figure,
        views.draw_values(walkthrough.model, strings),
    ):
        assert max(len(text.get_text()) for text in figure.findobj(Text)) < 40
        assert strings[0] in Picture(figure).words


def test_the_classifier_is_in_the_picture():
    ax = plots.plot_cls_paths(["a"], [[[0, 0], [0.1, 0], [0.2, 0.1]]], [3.0, -4.0])
    assert ax.get_xlim()[1] > 3 and ax.get_ylim()[0] < -4


def test_what_is_too_much_for_a_picture_is_refused(walkthrough):
    model = walkthrough.model
    with pytest.raises(ValueError, match="13 letters to draw: expected at most 12"):
        views.draw_queries_and_keys(model, "abc" * 4 + "a")
    with pytest.raises(ValueError, match="5 curves: expected at most 4"):
        views.draw_logits(model, ["a{N}", "b{N}", "c{N}", "a{N}b", "ab{N}"], 10)
    for epoch in (9, -1):
        with pytest.raises(ValueError, match="expected a whole number from 0 to 8"):
            views.draw_embeddings(walkthrough, epoch)
    assert plt.get_fignums() == []


def test_too_many_strings_are_refused():
    assert views.split_strings("aac, baac") == views.split_strings("aac, baac, ") == ["aac", "baac"]
    with pytest.raises(ValueError, match="11 strings: expected at most 10"):
        views.split_strings(",".join("a" * 11))


@pytest.mark.parametrize("name", figures.FIGURES)
def test_committed_figures_are_up_to_date(trained_once, name, request):
    """`make figures` would write the same picture.

    Trained weights differ by 1e-5 from one kind of processor to another, which is far below one pixel but
    may round its shade: up to 3 of 255 are allowed. A weight that is off by 0.01 changes some shades by 255.
    """
    committed = plt.imread(request.config.rootpath / "figures" / name)
    fresh = BytesIO()
    figures.FIGURES[name]().savefig(fresh, format="png")
    fresh.seek(0)
    fresh = plt.imread(fresh)
    assert fresh.shape == committed.shape
    assert np.abs(fresh - committed).max() <= 3 / 255


@pytest.mark.parametrize(
    "draw",
    [
        lambda model: views.draw_queries_and_keys(model, "ab"),
        lambda model: views.draw_values(model, ["ab"]),
        lambda model: views.draw_head(model, 0, ["ab{N}"], 10),
        lambda model: views.draw_cls_paths(model, ["ab"]),
        lambda model: plots.plot_tokens(model.embedding.weight.detach(), model.tokenizer.vocabulary),
    ],
)
def test_what_does_not_fit_a_line_or_a_plane_is_refused(draw):
    with pytest.raises(ValueError, match="only those of"):
        draw(Transformer(ModelConfig(hidden_size=3, attention_head_size=2)).requires_grad_(False))
    assert plt.get_fignums() == []


def test_other_alphabets_and_more_heads_are_drawn():
    config = ModelConfig(Task("abcdef", "bd"), num_attention_heads=3)
    model = Transformer(config).requires_grad_(False)
    assert len(views.draw_values(model, ["abcdef", "f"]).axes) == 3
    views.draw_queries_and_keys(model, "fab{3}")
    assert "f: logit" in Picture(views.draw_cls_paths(model, ["f", "bd"])).words


def test_lengths_are_means_without_the_zeros_of_pad(walkthrough):
    ax = views.draw_lengths({"trained": [walkthrough], "twice": [walkthrough] * 2})
    widths = [bar.get_width() for bar in ax.patches]
    assert widths[:8] == pytest.approx(widths[8:])
    weights = [walkthrough.model.embedding.weight[[0, 2, 3, 4]], walkthrough.model.self_attention_block.W_O.weight.T]
    assert [widths[0], widths[4]] == pytest.approx([rows.norm(dim=1).mean().item() for rows in weights])
    untrained = walkthrough.model_at(0).embedding.weight[[0, 2, 3, 4]]
    starts = [line.get_xdata() for line in ax.lines if line.get_marker() == "D"]
    assert starts[0][0] == starts[1][0] == pytest.approx(untrained.norm(dim=1).mean().item())
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "classifier"


def test_all_18_vectors_are_drawn(walkthrough):
    figure = views.draw_vectors(walkthrough.model)
    ends = [tuple(text.xy) for ax in figure.axes for text in ax.texts if text.arrow_patch]
    block = walkthrough.model.self_attention_block
    rows = [walkthrough.model.embedding, block.W_Q, block.W_K, block.W_V, block.W_in, walkthrough.model.classifier]
    vectors = [row for table in rows for row in table.weight] + [*block.W_O.weight.T, *block.W_out.weight.T]
    assert len(ends) == 18 and {(x.item(), y.item()) for x, y in vectors} == {(float(x), float(y)) for x, y in ends}


@pytest.mark.parametrize(
    ("string", "message"), [("c", "with an a and a b"), ("abc{1000001}", "lies beyond"), ("a{10001}b", "lies beyond")]
)
def test_a_string_that_has_no_place_on_the_map_is_refused(walkthrough, string, message):
    with pytest.raises(ValueError, match=message):
        views.draw_log_ratios(walkthrough.model, [string])


@pytest.mark.parametrize(("start", "length"), [(0.5, 0), (-2.0, 1), (-1.3, None)])
def test_a_horizon_without_a_place_on_the_map_is_drawn_all_the_same(start, length):
    """A model that is wrong about a letter alone, one that is wrong about ab, and one with a wrong string."""
    two_letters = EXACT | {"W_Q": [[-9, 0], [0, -9]], "W_K": [[1, 0], [0, 1]], "W_in": [[0, 0], [0, 0]]}
    model = build(two_letters | {"CLS": [start / 2, start / 2], "classifier": [[1, 1]]})
    title = views.draw_horizon(model).get_title(loc="left")
    assert title.startswith("right about every string up to")
    assert length is None or title.endswith(f" {length:,} letters")


def test_a_wrong_answer_is_named(generalization_errors):
    words = views.draw_cls_paths(generalization_errors.model, ["ab", "ab{100}"]).words
    assert "ab: logit 19.49, (" in words and "ab{100}: logit -1.97, wrong, (" in words


@pytest.mark.parametrize(
    ("num_b", "num_boxes", "words"),
    [(1, 2, "1 to 9 a, 1 to 3,000 c; 10 to 2,000 a, 1 to 30 c"), (3, 0, ""), (0, 1, "1 to 9 a, 1 to 30 c")],
)
def test_a_slice_has_the_boxes_that_hold_so_many_b(num_b, num_boxes, words):
    ax = maps.plot_boxes(BOXES, num_b)
    assert words_of(ax.figure) == f"{num_boxes} of 4 boxes hold strings with {num_b} b: {words}."
    assert len(ax.patches) == num_boxes
