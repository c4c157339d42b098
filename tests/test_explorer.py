"""The explorer's Python side, without a browser."""

import math
import re

import numpy as np
import pytest
import torch
import traitlets
from matplotlib.text import Text

from toy_transformer.editing.hand_written import EXACT
from toy_transformer.explorer import Explorer, SideBySide, explore
from toy_transformer.explorer.code import checksum
from toy_transformer.explorer.verdict import sentence_on_horizon
from toy_transformer.explorer.widget import BUNDLE, FROM_THE_PAGE, LARGEST, LONGEST, VIEWS
from toy_transformer.model import MAX_LENGTH_SCALING, ModelConfig, Transformer
from toy_transformer.pictures import plots, views
from toy_transformer.pictures.maps import SCALE
from toy_transformer.proofs import bounds
from toy_transformer.proofs.certificate import MAX_BOXES, check_certificate
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, Unfinished, horizon, shortest_wrong_string
from toy_transformer.proofs.logit import GELU_MINIMUM
from toy_transformer.task import MAX_SPANS, Task
from toy_transformer.weights import build, numbers_of


@pytest.fixture
def explorer(walkthrough) -> Explorer:
    return explore(walkthrough)


def test_the_model_is_an_ordinary_one(explorer, walkthrough):
    trace, expected = explorer.model.trace(["baac"]), walkthrough.model.trace(["baac"])
    assert torch.equal(trace.output_logits, expected.output_logits)
    explorer.weights = explorer.weights | {"a": [1, 2]}
    assert explorer.model.embedding.weight[2].tolist() == [1, 2]
    assert explorer.weights["a"] == [1.0, 2.0]


def test_the_page_draws_the_line_where_python_does(explorer):
    expected = {
        "MAX_STRINGS": views.MAX_STRINGS,
        "LONGEST": LONGEST,
        "MAX_SPANS": MAX_SPANS,
        "LARGEST": LARGEST,
        "LARGEST_SCALING": MAX_LENGTH_SCALING,
        "GREATEST_LOGIT": SCALE.vmax,
        "SEARCHED_LENGTH": SEARCHED_LENGTH,
        "MAX_BOXES": MAX_BOXES,
        "MARGIN": bounds.MARGIN,
        "MARGIN_OF_SCORES": bounds.MARGIN_OF_SCORES,
        "GELU_MINIMUM": GELU_MINIMUM,
    }
    source = "".join(path.read_text() for path in (BUNDLE.parent / "js").glob("*.js"))
    limits = re.findall(rf"^(?:export )?const ({'|'.join(expected)}) = (.*);$", source, re.MULTILINE)
    assert {name: float(limit) for name, limit in limits} == expected


def test_a_still_is_drawn_once_for_each_display(explorer, monkeypatch):
    drawn = []
    draw_panels = views.draw_panels
    monkeypatch.setattr(views, "draw_panels", lambda *args: drawn.append(args) or draw_panels(*args))
    explorer._repr_mimebundle_()
    assert len(drawn) == 1


def test_a_still_says_which_model_it_shows_its_numbers_and_what_it_lacks(walkthrough, monkeypatch):
    figures, draw_panels = [], views.draw_panels
    monkeypatch.setattr(views, "draw_panels", lambda *args: figures.append(draw_panels(*args)) or figures[-1])
    models = {"first": walkthrough, "second": build(EXACT)}
    assert explore(models, ["ab"], ["numbers", "verdict", "length_scaling"]).picture
    texts = [text.get_text() for text in figures[0].findobj(Text)]
    (title,) = [text for text in texts if text.startswith("first\nab: logit 10.97, yes, right.\n")]
    assert title.endswith("The live view has κ as well.)")
    (listed,) = [text for text in texts if text.startswith("CLS")]
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", listed)]
    expected = np.concatenate([np.ravel(rows) for rows in numbers_of(walkthrough.model).values()])
    np.testing.assert_allclose(numbers, expected, atol=0.005)


def test_traits_follow_each_other(explorer, walkthrough):
    explorer.epoch = 2
    assert explorer.weights == numbers_of(walkthrough.model_at(2))
    wrong = shortest_wrong_string(walkthrough.model_at(2))
    assert f"up to {wrong.length - 1:,} letters; the shortest wrong one is {wrong.string}." in explorer.verdict
    explorer.epoch = None
    assert explorer.weights == numbers_of(walkthrough.model)
    explorer.set_state({"epoch": 3, "weights": explorer.weights | {"b": [0, 0]}})
    assert explorer.epoch == 3 and explorer.weights["b"] == [0, 0]


@pytest.mark.parametrize(
    ("trait", "value", "reason"),
    [
        ("weights", {}, "expected the names"),
        ("weights", EXACT | {"a": [1, math.nan]}, "expected finite numbers"),
        ("weights", EXACT | {"a": [1, 2, 3]}, "expected finite numbers of shape"),
        ("weights", EXACT | {"a": [1, 2000]}, "up to 1,000"),
        ("strings", ["abd"], "expected one of the letters"),
        ("strings", [], "found the end"),
        ("strings", [f"a{{{10**16}}}"], "counts up to"),
        ("epoch", 99, "has the epochs 0 to"),
        ("model_name", "seed 9", "expected one of seed 5"),
        ("length_scaling", -1.0, "expected from 0"),
        ("required", "ba", "alphabetical order"),
        ("required", "", "expected one or more"),
    ],
)
def test_bad_values_are_refused_and_the_state_stays(explorer, trait, value, reason):
    before = getattr(explorer, trait)
    with pytest.raises(ValueError, match=reason):
        setattr(explorer, trait, value)
    assert getattr(explorer, trait) == before


@pytest.mark.parametrize(
    ("models", "views", "reason"),
    [
        ({}, None, "expected a model"),
        ({"x": 5}, None, "x: expected a Transformer"),
        ({"x": Transformer(), "y": Transformer(ModelConfig(hidden_size=3))}, None, "of different configurations"),
        ({"x": Transformer(ModelConfig(norm="rms"))}, None, "without norm"),
        ({"x": Transformer(ModelConfig(attention_head_size=2))}, None, "heads of size 1"),
        ({"x": Transformer(ModelConfig(Task("abcd", "ab")))}, None, "expected a model for the letters a, b, c"),
        ({"x": Transformer()}, ["planes"], "expected some of embeddings"),
        ({"x": Transformer(ModelConfig(hidden_size=3))}, ["path"], "'path' needs embeddings of two numbers"),
        ({"x": Transformer(ModelConfig(feed_forward_size=3))}, ["numbers"], "'numbers' needs the sizes"),
    ],
)
def test_what_makes_no_sense_is_refused(models, views, reason):
    with pytest.raises(ValueError, match=reason):
        explore(models, views=views)


def test_other_sizes_have_the_views_that_make_sense():
    assert explore(Transformer()).views == list(VIEWS)
    wide = explore(Transformer(ModelConfig(hidden_size=16)))
    assert not wide.editable and {"embeddings", "path", "numbers", "training"}.isdisjoint(wide.views)


def test_sentences_on_the_horizon(walkthrough):
    sentence = sentence_on_horizon(walkthrough.model.with_length_scaling(0.5))
    assert sentence.startswith("Right about every string of every length: proved from 8 letters on")
    assert "Not decided" in sentence_on_horizon(build(EXACT))
    assert sentence_on_horizon(build(EXACT | {"W_out": [[0, 0], [0, 0]]})).startswith("Not decided")
    assert "the shortest wrong one is abc{2165}" in sentence_on_horizon(walkthrough.model)
    always_yes = build(EXACT | {"CLS": [5, 5], "W_O": [[0, 0], [0, 0]], "classifier": [[1, 1]]})
    assert sentence_on_horizon(always_yes).startswith("Wrong about a string of one letter")


def test_a_search_that_is_stopped_says_how_far_it_came(walkthrough):
    shortest = shortest_wrong_string(walkthrough.model).length
    lengths = []
    for max_boxes in (40, 100, 200):
        with pytest.raises(Unfinished) as stopped:
            shortest_wrong_string(walkthrough.model, max_boxes=max_boxes)
        lengths.append(stopped.value.right_up_to)
    assert 0 < lengths[0] < lengths[1] < lengths[2] < shortest


def test_a_saved_notebook_shows_a_picture_and_the_verdict(explorer):
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"] == metadata["image/png"]["alt"] == repr(explorer)
    assert "aac: logit -8.29, no, right. baac: logit 10.96, yes, right. Right about every string up to 2,166" in repr(
        explorer
    )
    assert len(data["image/png"]) > 10_000


def test_explorers_side_by_side(walkthrough, generalization_errors):
    both = SideBySide({"good": explore(walkthrough), "bad": explore(generalization_errors)})
    words = repr(both)
    assert "good: aac: logit -8.29" in words and "bad: aac" in words


def test_colours_are_those_of_the_static_pictures(explorer):
    for name, (color, _) in plots.TOKEN_STYLES.items():
        assert name == "PAD" or f"--{name}: light-dark({color.lower()}," in explorer._css
    for head, color in enumerate(plots.HEAD_COLORS):
        assert f"--head{head}: light-dark({color.lower()}," in explorer._css
    assert np.shape(explorer.palette) == (65, 3)


@pytest.mark.parametrize(
    "message",
    [
        {"model_name": "seed 9"},
        {"model_name": "seed 9", "epoch": 3},
        {"epoch": 3, "model_name": "seed 9"},
        {"epoch": 99, "weights": EXACT},
        {"epoch": 3, "weights": EXACT | {"a": [1, math.inf]}},
        {"weights": EXACT, "length_scaling": math.nan},
        {"length_scaling": -1, "strings": ["ab"]},
        {"length_scaling": "1"},
        {"length_scaling": 10**400, "epoch": 2},
        {"strings": ["ab", "abd"], "epoch": 2},
        {"strings": [3]},
        {"weights": {"a": None}},
        {"weights": 5},
        {"epoch": 3, "models": {}},
        {"palette": []},
        {"required": "abcd"},
        {"required": None, "epoch": 2},
        {"views": []},
    ],
)
def test_a_refused_message_leaves_the_last_good_state(explorer, message):
    explorer.set_state({"epoch": 2, "weights": explorer.models["seed 5"]["epochs"][2], "strings": ["abc"]})
    before = {name: getattr(explorer, name) for name in explorer.trait_names(page=True)}
    with pytest.raises(traitlets.TraitError):
        explorer.set_state(message)
    assert {name: getattr(explorer, name) for name in explorer.trait_names(page=True)} == before
    assert explorer.verdict in repr(explorer)
    explorer.set_state({"epoch": 4, "weights": explorer.models["seed 5"]["epochs"][4]})
    assert explorer.epoch == 4


def test_one_letter_is_no_letters(walkthrough):
    numbers = numbers_of(walkthrough.model)
    model = build(numbers | {"classifier": (-np.array(numbers["classifier"])).tolist()})
    assert sentence_on_horizon(model).startswith("Wrong about a string of one letter")
    wrong_at_two = next(
        sentence
        for seed in range(100)
        for sentence in [sentence_on_horizon(Transformer(seed=seed))]
        if "up to 1 " in sentence
    )
    assert "up to 1 letter;" in wrong_at_two


def test_any_question_of_these_letters():
    task = Task("abc", "ac")
    explorer = explore(Transformer(ModelConfig(task), seed=3), ["ac", "ab"])
    assert explorer.required == "ac" and explorer.editable
    explorer.required = "b"
    assert explorer.model.config.task == Task("abc", "b")
    without, with_b = (explorer.model.trace(["ac", "ab"]).output_logits > 0).tolist()
    expected = ["wrong" if without else "right", "right" if with_b else "wrong"]
    assert re.findall(r"right|wrong", explorer.verdict)[:2] == expected


def test_views_can_leave_out_the_horizon(walkthrough):
    assert "every string" not in explore(walkthrough, views=["verdict", "path"]).verdict
    assert "every string" in explore(walkthrough, views=["verdict", "horizon"]).verdict


def test_the_rigorous_word(explorer):
    certificate = explorer.certify()
    assert certificate["max_length"] == horizon(explorer.model) == 2166
    check_certificate(certificate, explorer.model)


def test_a_code_brings_the_state_back(explorer, walkthrough):
    explorer.set_state(
        {"epoch": 3, "weights": explorer.weights | {"b": [0.5, 0]}, "strings": ["c{30}"], "required": "bc"}
    )
    code, state = explorer.code, explorer.get_state()
    other = explore(walkthrough)
    other.from_code(f" {code} ")
    assert {name: other.get_state()[name] for name in FROM_THE_PAGE} == {name: state[name] for name in FROM_THE_PAGE}
    stranger = explore(Transformer(seed=1))
    stranger.from_code(code)
    assert stranger.weights == explorer.weights and stranger.model_name == "model"


def test_a_spoilt_code_is_refused_and_the_state_stays(explorer):
    code, before = explorer.code, explorer.get_state()
    body = code.rsplit(".", 1)[0]
    no_number = body.replace(body[4:10], "AQCAfw")  # the first four bytes are those of a NaN that signals
    lies = [body.replace("aac", "abd"), body.replace(".ab", ".ba"), body.replace(".8.", ".x."), "TT2.AAAA.ab..8.ab"]
    lies.append(no_number)
    for bad in ["", "hello", code[:-9], code.replace("aac", "aab"), 5, *(f"{lie}.{checksum(lie)}" for lie in lies)]:
        with pytest.raises(ValueError):
            explorer.from_code(bad)
        assert explorer.get_state() == before


def test_a_still_of_a_long_string(walkthrough):
    written_out = explore(walkthrough, ["abc" * 5, "a{15}"], views=["heads"])
    assert len(written_out._repr_mimebundle_()[0]["image/png"]) > 10_000
    with pytest.raises(ValueError, match="write repeats"):
        written_out.strings = ["ab" * 600]
