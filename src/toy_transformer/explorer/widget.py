"""The explorer: all numbers of a model under the reader's hand, and every view of it following.

The module `explorer.js` draws and computes what it draws by itself; this side gives it the models, finds the horizon
of what the hand has made of them, and takes it over as an ordinary model.
"""

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import traitlets

from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.pictures import views as pictures_of
from toy_transformer.pictures.maps import YES_AND_NO
from toy_transformer.pictures.picture import Picture, WithPicture
from toy_transformer.proofs.all_lengths import NotCertified, certify_all_lengths
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, Undecidable, Unfinished, WrongString, shortest_wrong_string
from toy_transformer.task import Task, Tokenizer, contains_all
from toy_transformer.training import TrainedModel
from toy_transformer.weights import build, numbers_of

VIEWS = ("embeddings", "heads", "path", "numbers", "verdict", "map", "epochs", "length_scaling")
"""What an explorer can show: six views, and the controls of the epoch and of κ."""

FROM_THE_PAGE = {"weights", "strings", "model_name", "epoch", "length_scaling"}
"""The traits that a page may set."""

LARGEST = 1000
"""The largest number that a weight can be set to."""

LONGEST = 10**15
"""The longest string, so that its letters are counted exactly in JavaScript."""

LIVE_BOXES = 2000
"""How long a search for the horizon may go on while a hand moves: some 40 ms."""


class Refused(traitlets.TraitError, ValueError):
    """A value that cannot be. Traitlets takes back all that came with it, which it does for no other error."""


def _check(name: str) -> Callable[[Callable], traitlets.ValidateHandler]:
    """Make a method the check of a trait: it gives the value as it is kept, or raises an error."""

    def decorate(check: Callable[["Explorer", Any], Any]) -> traitlets.ValidateHandler:
        def validate(explorer: "Explorer", proposal: traitlets.Bunch) -> Any:
            try:
                return check(explorer, proposal.value)
            except (ValueError, TypeError, KeyError) as error:
                raise Refused(str(error)) from error

        return traitlets.validate(name)(validate)

    return decorate


class _WithStill(WithPicture):
    """Explorers with a picture of what they show, as far as it stands still, and their verdicts as its words."""

    explorers: Mapping[str, "Explorer"]

    @property
    def words(self) -> str:
        return "Explorer of " + " ".join(f"{name}: {explorer.verdict}" for name, explorer in self.explorers.items())

    @property
    def picture(self) -> Picture:  # type: ignore[override]
        first = next(iter(self.explorers.values()))
        panels = [view for view in first.views if view in pictures_of.PANELS]
        models = {name: (explorer.model, explorer.strings) for name, explorer in self.explorers.items()}
        with plt.style.context("toy_transformer.pictures.style"):
            figure = pictures_of.draw_panels(models, panels or ["map"])
        return Picture(figure, self.words)


class Explorer(_WithStill, anywidget.AnyWidget):
    """A widget whose traits can be read, set and observed; `explore` makes one.

    `weights` has the numbers by name, as in `hand_written.EXACT`; `model_name` and `epoch` say where they began;
    `length_scaling` is κ; `horizon` says of which weights it is. Values that cannot be are refused with `ValueError`,
    those of another type with `TraitError`.
    """

    _esm = Path(__file__).parent / "explorer.js"
    _css = Path(__file__).parent / "explorer.css"

    weights = traitlets.Dict().tag(sync=True, page=True)
    strings = traitlets.List(traitlets.Unicode()).tag(sync=True, page=True)
    model_name = traitlets.Unicode().tag(sync=True, page=True)
    epoch = traitlets.Int(allow_none=True).tag(sync=True, page=True)
    length_scaling = traitlets.Float().tag(sync=True, page=True)
    horizon = traitlets.Dict().tag(sync=True, page=True)
    views = traitlets.List(traitlets.Unicode()).tag(sync=True, page=True)
    models = traitlets.Dict().tag(sync=True, page=True)
    palette = traitlets.List().tag(sync=True, page=True)
    attend_cls = traitlets.Bool().tag(sync=True, page=True)
    editable = traitlets.Bool().tag(sync=True, page=True)

    def __init__(
        self, models: Mapping[str, Transformer | TrainedModel], strings: Sequence[str], views: Sequence[str] | None
    ):
        self.config = _common_config(models)
        self._follows_the_page = False
        self._found: tuple[str, dict] = "", {}
        name = next(iter(models))
        histories = {name: _history(model) for name, model in models.items()}
        epoch = histories[name]["best_epoch"]
        super().__init__(
            models=histories,
            model_name=name,
            epoch=epoch,
            weights=histories[name]["epochs"][epoch or 0],
            length_scaling=float(self.config.length_scaling),
            strings=list(strings),
            views=_views_of(self.config, views),
            palette=(255 * YES_AND_NO(np.linspace(0, 1, 65))[:, :3]).round().astype(int).tolist(),
            attend_cls=self.config.attend_cls,
            editable=_is_editable(self.config),
        )
        self._find_horizon()
        self.observe(self._go_to_epoch, names=["model_name", "epoch"])
        self.observe(self._find_horizon, names=["weights", "length_scaling"])
        self.on_msg(self._answer)

    @property
    def model(self) -> Transformer:
        """The model as it is now, a new one each time."""
        return self._build(self.weights, self.length_scaling)

    @property
    def verdict(self) -> str:
        """What the explorer says of the strings and, where its verdict is shown, of how far the model stays right."""
        logits = self.model.trace(self.strings).output_logits.tolist()
        on_all = [self.horizon["sentence"]] if "verdict" in self.views else []
        return " ".join([*map(_sentence, self.strings, logits), *on_all])

    @property
    def explorers(self) -> Mapping[str, "Explorer"]:  # type: ignore[override]
        return {self.model_name: self}

    def to_html(self, path: str | Path) -> None:
        """Write the explorer, with its state, to a path, as one page that needs neither a network nor Python."""
        Path(path).write_text(_page(self), encoding="utf-8")

    def set_state(self, sync_data: dict) -> None:
        """Take over what the page has set, all at once: `sync_data` has the traits by name.

        Raises `Refused`, and stays as it was, where one cannot be, or is not for the page to set.
        """
        if not sync_data.keys() <= FROM_THE_PAGE:
            raise Refused(f"the page sets {', '.join(sync_data)}: expected some of {', '.join(sorted(FROM_THE_PAGE))}")
        self._follows_the_page = True
        try:
            super().set_state(sync_data)
        finally:
            self._follows_the_page = False

    def _build(self, weights: Mapping[str, Sequence], length_scaling: float) -> Transformer:
        model = build(weights, replace(self.config, length_scaling=length_scaling)).eval()
        if any(weight.abs().max() > LARGEST for weight in model.parameters()):
            raise ValueError(f"weights: the explorer has room for numbers of up to {LARGEST:,}")
        return model

    def _answer(self, _, question: dict, __) -> None:
        """Tell the page the horizon of weights that are under way there; what is no question gets no answer."""
        if not isinstance(question, dict) or not question.keys() >= {"question", "weights", "length_scaling"}:
            return
        try:
            horizon = self._horizon_of(question["weights"], question["length_scaling"])
        except (TypeError, ValueError) as error:
            horizon = {"sentence": f"Not computed: {error}", "wrong": None}
        self.send({"question": question["question"], "horizon": horizon})

    def _find_horizon(self, change: object = None) -> None:
        state = dict(weights=self.weights, length_scaling=self.length_scaling)
        self.horizon = self._horizon_of(self.weights, self.length_scaling) | state

    def _horizon_of(self, weights: Mapping[str, Sequence], length_scaling: float) -> dict:
        """Find the horizon, once for weights that the page asks about and then keeps."""
        state = json.dumps([weights, length_scaling])
        if state != self._found[0]:
            self._found = state, find_horizon(self._build(weights, length_scaling))
        return self._found[1]

    def _go_to_epoch(self, change: traitlets.Bunch) -> None:
        """Python has set another model or epoch: its weights follow. No epoch is the best one."""
        if self._follows_the_page:
            return
        history = self.models[self.model_name]
        if change.name == "model_name":
            self.epoch = history["best_epoch"]
        epoch = history["best_epoch"] if self.epoch is None else self.epoch
        self.weights = history["epochs"][epoch or 0]

    @_check("weights")
    def _check_weights(self, value: Any) -> dict:
        return numbers_of(self._build(value, 0.0))

    @_check("views")
    def _check_views(self, value: Any) -> list[str]:
        return _views_of(self.config, value)

    @_check("strings")
    def _check_strings(self, value: Any) -> list[str]:
        strings = pictures_of.split_strings(",".join(value))
        for string in strings:
            if sum(Tokenizer().counts(string)) > LONGEST:
                raise ValueError(f"{string}: the explorer counts up to {LONGEST:,} letters")
        return list(dict.fromkeys(strings))

    @_check("length_scaling")
    def _check_length_scaling(self, value: Any) -> float:
        return float(np.float32(replace(self.config, length_scaling=value).length_scaling))

    @_check("model_name")
    def _check_model_name(self, value: Any) -> str:
        if value not in self.models:
            raise ValueError(f"model_name={value!r}: expected one of {', '.join(self.models)}")
        return value

    @_check("epoch")
    def _check_epoch(self, value: Any) -> int | None:
        history = self.models[self.model_name]
        allowed = [None] if history["best_epoch"] is None else range(len(history["epochs"]))
        if value not in allowed:
            last = len(history["epochs"]) - 1
            raise ValueError(f"epoch={value!r}: {self.model_name} has the epochs 0 to {last}")
        return value


class SideBySide(_WithStill, widgets.Box):
    """Explorers beside each other, or one below the other where there is no room, each for itself."""

    def __init__(self, explorers: Mapping[str, Explorer]):
        self.explorers = dict(explorers)
        columns = [
            widgets.VBox([widgets.HTML(f"<h3>{html.escape(name)}</h3>"), explorer])
            for name, explorer in self.explorers.items()
        ]
        for column in columns:
            column.layout.flex, column.layout.min_width = "1 1 380px", "0"
        super().__init__(columns, layout=widgets.Layout(flex_flow="row wrap"))


def explore(
    model: Transformer | TrainedModel | Mapping[str, Transformer | TrainedModel],
    strings: Sequence[str] = ("aac", "baac"),
    views: Sequence[str] | None = None,
) -> Explorer:
    """Make an explorer of a model, of a training with all its epochs, or of several by name.

    It begins with `strings`; `views` chooses from `VIEWS`, and without it, all that make sense for the model are
    shown. Models of another size than that of the 36 numbers can be looked at, not changed. Raises `ValueError` for a
    view that is unknown or does not make sense, for models of different configurations together, and for models with
    norm, heads of more than one number, or another task.
    """
    if not isinstance(model, Mapping):
        model = {f"seed {model.seed}" if isinstance(model, TrainedModel) else "model": model}
    return Explorer(model, strings, views)


def find_horizon(model: Transformer) -> dict:
    """Say in a sentence how far a model is right, and give the shortest wrong string, if one was found."""
    wrong = None
    try:
        wrong = shortest_wrong_string(model, max_boxes=LIVE_BOXES)
        sentence = _sentence_on_all(model) if wrong is None else _sentence_on_wrong(wrong)
    except Unfinished as stopped:
        sentence = f"Right on every string up to {stopped.right_up_to:,} letters; the search was stopped there, "
        sentence += "for many logits are near 0."
    except Undecidable as error:
        sentence = f"Not decided: {error}."
    return {
        "sentence": sentence,
        "wrong": None if wrong is None else {"string": wrong.string, "counts": list(wrong.counts)},
    }


def _sentence_on_wrong(wrong: WrongString) -> str:
    if wrong.length == 1:
        return f"Wrong from the first letter on: {wrong.string}."
    return f"Right on every string up to {wrong.length - 1:,} letters; the shortest wrong one is {wrong.string}."


def _sentence_on_all(model: Transformer) -> str:
    try:
        proof = certify_all_lengths(model, LIVE_BOXES)
    except (NotCertified, ValueError, Undecidable, Unfinished):
        return f"Right on every string up to {SEARCHED_LENGTH:,} letters; longer ones were not searched."
    return f"Right on every string of every length: proved from {proof.from_length:,} letters on, below by certificate."


def _sentence(string: str, logit: float) -> str:
    answer, right = ("yes" if logit > 0 else "no"), (logit > 0) == contains_all(string)
    return f"{string}: logit {logit:.2f}, {answer}, {'right' if right else 'wrong'}."


def _common_config(models: Mapping[str, Transformer | TrainedModel]) -> ModelConfig:
    if not isinstance(models, Mapping) or not models:
        raise ValueError("expected a model, a run, or several by name, such as {'seed 0': run}")
    for name, model in models.items():
        if not isinstance(model, Transformer | TrainedModel):
            raise ValueError(f"{name}: expected a Transformer or a run of a training, found {type(model).__name__}")
    config = next(iter(models.values())).config
    if any(model.config.architecture != config.architecture for model in models.values()):
        raise ValueError("models of different configurations: give each an explorer of its own")
    if config.task != Task() or config.norm is not None or config.attention_head_size != 1:
        raise ValueError(f"{config}: the explorer takes models for {Task()}, with heads of size 1 and without norm")
    return config


def _is_editable(config: ModelConfig) -> bool:
    return config.architecture == ModelConfig(attend_cls=config.attend_cls, length_scaling=config.length_scaling)


def _views_of(config: ModelConfig, views: Sequence[str] | None) -> list[str]:
    """The views that were asked for, or all that make sense for the model."""
    refused = {} if config.hidden_size == 2 else dict.fromkeys(("embeddings", "path"), "embeddings of two numbers")
    refused |= {} if _is_editable(config) else {"numbers": "the sizes of the model of 36 numbers"}
    if views is None:
        return [view for view in VIEWS if view not in refused]
    if isinstance(views, str) or not views or any(view not in VIEWS for view in views):
        raise ValueError(f"views={views!r}: expected some of {', '.join(VIEWS)}")
    for view in views:
        if view in refused:
            raise ValueError(f"views: {view!r} needs {refused[view]}, and this model has other sizes: {config}")
    return list(views)


def _history(model: Transformer | TrainedModel) -> dict:
    if isinstance(model, Transformer):
        return {"epochs": [numbers_of(model)], "best_epoch": None}
    epochs = [numbers_of(model.model_at(epoch)) for epoch in range(len(model.weights))]
    return {"epochs": epochs, "best_epoch": model.best_epoch}


def _page(explorer: Explorer) -> str:
    state = {name: getattr(explorer, name) for name in explorer.trait_names(page=True)}
    source = json.dumps({"module": explorer._esm, "state": state}).replace("<", r"\u003c")
    template = (Path(__file__).parent / "explorer.html").read_text(encoding="utf-8")
    return template.replace("{{style}}", str(explorer._css)).replace("{{source}}", source)
