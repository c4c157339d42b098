"""The explorer: all numbers of a model under the reader's hand, and every view of it following.

The modules of `js/`, bundled into one file, draw and compute by themselves, the horizon included; this side gives them
the models, takes over what the hand has made as an ordinary model, and has the rigorous word.
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

from toy_transformer.explorer.code import decode, encode
from toy_transformer.explorer.verdict import sentence, sentence_on_horizon
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.pictures import views as pictures_of
from toy_transformer.pictures.maps import YES_AND_NO
from toy_transformer.pictures.picture import Picture, WithPicture
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, certify, shortest_wrong_string
from toy_transformer.task import Task, Tokenizer
from toy_transformer.training import TrainedModel
from toy_transformer.weights import build, numbers_of

VIEWS = (
    *("embeddings", "heads", "path", "numbers", "verdict", "horizon", "map", "training"),
    *("arrows", "epochs", "length_scaling", "question"),
)
"""What an explorer can show: its views; in those of the embeddings and of the path, the arrows of the maps as well; and
the controls of the epoch, of κ and of the question."""

LIVE_ONLY = {
    "arrows": "choices below its plane",
    "training": "training",
    "epochs": "the epochs",
    "length_scaling": "κ",
    "question": "the question",
}
"""What a still does not show, by view."""

FROM_THE_PAGE = {"weights", "strings", "model_name", "epoch", "length_scaling", "required"}
"""The traits that a page may set: they are its state."""

BUNDLE = Path(__file__).parent / "bundle.js"
"""The modules of `js/` as one classic script, which names them `toyExplorer`."""

STATE = "application/vnd.toy-transformer.explorer"
"""The MIME type under which a saved notebook keeps the states of its explorers, as a line of JSON, for pages without
Python."""

LARGEST = 1000
"""The largest number that a weight can be set to."""

LONGEST = 10**15
"""The longest string, so that its letters are counted exactly in JavaScript."""


class Refused(traitlets.TraitError, ValueError):
    """A value that cannot be. Traitlets takes back all that came with it, which it does for no other error."""


class _Number(traitlets.Float):
    """One that refuses what no float can hold as it refuses the rest."""

    def validate(self, explorer: "Explorer", value: Any) -> float:
        try:
            return super().validate(explorer, value)
        except OverflowError as error:
            raise Refused(f"{self.name}: {error}") from error


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
        shown = next(iter(self.explorers.values())).views
        left_out = "embeddings" if {"embeddings", "arrows"} <= set(shown) else "arrows"
        panels = [view for view in shown if view in pictures_of.PANELS and view != left_out]
        live = ", ".join(LIVE_ONLY[view] for view in shown if view in LIVE_ONLY)
        missing = [f"(This is a picture. The live view has {live} as well.)"] if live else []
        models = {}
        for name, explorer in self.explorers.items():
            names = [name] * (len(self.explorers) > 1) + [explorer.model_name] * (len(explorer.models) > 1)
            title = names + explorer.sentences * ("verdict" in shown) + missing
            models["\n".join(title)] = explorer.model, explorer.strings
        with plt.style.context("toy_transformer.pictures.style"):
            figure = pictures_of.draw_panels(models, panels or ["map"])
        return Picture(figure, self.words)

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        states = {name: explorer.state_of_page for name, explorer in self.explorers.items()}
        return data | {STATE: json.dumps(states)}, metadata


class Explorer(_WithStill, anywidget.AnyWidget):
    """A widget whose traits can be read, set and observed; `explore` makes one.

    `weights` has the numbers by name, as in `hand_written.EXACT`; `model_name` and `epoch` say where they began;
    `length_scaling` is κ, and `required` has the letters that a string must contain. Values that cannot be are refused
    with `ValueError`, those of another type with `TraitError`.
    """

    _esm = BUNDLE.read_text(encoding="utf-8") + "export default toyExplorer;"
    _css = Path(__file__).parent / "explorer.css"

    weights = traitlets.Dict().tag(sync=True, page=True)
    strings = traitlets.List(traitlets.Unicode()).tag(sync=True, page=True)
    model_name = traitlets.Unicode().tag(sync=True, page=True)
    epoch = traitlets.Int(allow_none=True).tag(sync=True, page=True)
    length_scaling = _Number().tag(sync=True, page=True)
    required = traitlets.Unicode().tag(sync=True, page=True)
    views = traitlets.List(traitlets.Unicode()).tag(sync=True, page=True)
    models = traitlets.Dict().tag(sync=True, page=True)
    palette = traitlets.List().tag(sync=True, page=True)
    attend_cls = traitlets.Bool().tag(sync=True, page=True)
    editable = traitlets.Bool().tag(sync=True, page=True)

    def __init__(
        self, models: Mapping[str, Transformer | TrainedModel], strings: Sequence[str], views: Sequence[str] | None
    ):
        self.config = _common_config(models)
        self._sets_all = False
        name = next(iter(models))
        histories = {name: _history(model) for name, model in models.items()}
        epoch = histories[name]["best_epoch"]
        super().__init__(
            models=histories,
            model_name=name,
            epoch=epoch,
            weights=histories[name]["epochs"][epoch or 0],
            length_scaling=float(self.config.length_scaling),
            required=self.config.task.required,
            strings=list(strings),
            views=_views_of(self.config, views),
            palette=(255 * YES_AND_NO(np.linspace(0, 1, 65))[:, :3]).round().astype(int).tolist(),
            attend_cls=self.config.attend_cls,
            editable=_is_editable(self.config),
        )
        self.observe(self._go_to_epoch, names=["model_name", "epoch"])
        self.on_msg(lambda *_: self.send({"saved": True}))  # the page wants to know whether somebody is there

    @property
    def model(self) -> Transformer:
        """The model as it is now, a new one each time."""
        return self._build(self.weights)

    @property
    def sentences(self) -> list[str]:
        """What can be said of the strings and, where the horizon is shown, of how far the model stays right."""
        logits = self.model.trace(self.strings).output_logits.tolist()
        on_strings = [sentence(*pair, self.required) for pair in zip(self.strings, logits, strict=True)]
        return [*on_strings, *([sentence_on_horizon(self.model)] if "horizon" in self.views else [])]

    @property
    def verdict(self) -> str:
        """The sentences, one after the other."""
        return " ".join(self.sentences)

    @property
    def state_of_page(self) -> dict:
        """All that a page needs to show the explorer, by name."""
        return {name: getattr(self, name) for name in self.trait_names(page=True)}

    @property
    def code(self) -> str:
        """The state as one line of text, as the page gives it and takes it."""
        return encode({name: getattr(self, name) for name in FROM_THE_PAGE}, self.weights)

    def from_code(self, code: str) -> None:
        """Take over the state of a code. The code of a model that is not here gives its numbers to the one that is.

        Raises `ValueError`, and stays as it was, for a code that cannot be read or a state that cannot be.
        """
        state = decode(code, self.weights)
        history = self.models.get(state["model_name"], {"epochs": [], "best_epoch": 0})
        known = (state["epoch"] is None) == (history["best_epoch"] is None)
        if not known or (state["epoch"] or 0) >= len(history["epochs"]):
            state = {name: value for name, value in state.items() if name not in ("model_name", "epoch")}
        self._sets_all = True
        try:
            with self.hold_trait_notifications():
                for name, value in state.items():
                    setattr(self, name, value)
        finally:
            self._sets_all = False

    def certify(self, max_length: int = SEARCHED_LENGTH) -> dict:
        """Give a proof of how far the model is right, up to `max_length`, for `certificate.check_certificate`.

        It has the rigorous word on what the page's verdict says of all strings. Raises what `proofs.horizon.certify`
        raises, which tells what such a proof is.
        """
        wrong = shortest_wrong_string(self.model, max_length)
        return certify(self.model, wrong.length - 1 if wrong else max_length)

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
        self._sets_all = True
        try:
            super().set_state(sync_data)
        finally:
            self._sets_all = False

    def _build(self, weights: Mapping[str, Sequence]) -> Transformer:
        task = Task(self.config.task.letters, self.required)
        model = build(weights, replace(self.config, task=task, length_scaling=self.length_scaling)).eval()
        if any(weight.abs().max() > LARGEST for weight in model.parameters()):
            raise ValueError(f"weights: the explorer has room for numbers of up to {LARGEST:,}")
        return model

    def _go_to_epoch(self, change: traitlets.Bunch) -> None:
        """Another model or epoch has been set, alone: its weights follow. No epoch is the best one."""
        if self._sets_all:
            return
        history = self.models[self.model_name]
        if change.name == "model_name":
            self.epoch = history["best_epoch"]
        epoch = history["best_epoch"] if self.epoch is None else self.epoch
        self.weights = history["epochs"][epoch or 0]

    @_check("weights")
    def _check_weights(self, value: Any) -> dict:
        return numbers_of(self._build(value))

    @_check("views")
    def _check_views(self, value: Any) -> list[str]:
        return _views_of(self.config, value)

    @_check("strings")
    def _check_strings(self, value: Any) -> list[str]:
        strings = pictures_of.split_strings(",".join(value))
        for string in strings:
            Tokenizer().encode_spans([string])  # raises what it raises for one that is written out too long
            if sum(Tokenizer().counts(string)) > LONGEST:
                raise ValueError(f"{string}: the explorer counts up to {LONGEST:,} letters")
        return list(dict.fromkeys(strings))

    @_check("length_scaling")
    def _check_length_scaling(self, value: Any) -> float:
        return float(np.float32(replace(self.config, length_scaling=value).length_scaling))

    @_check("required")
    def _check_required(self, value: Any) -> str:
        return Task(self.config.task.letters, value).required

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


def _common_config(models: Mapping[str, Transformer | TrainedModel]) -> ModelConfig:
    if not isinstance(models, Mapping) or not models:
        raise ValueError("expected a model, a run, or several by name, such as {'seed 0': run}")
    for name, model in models.items():
        if not isinstance(model, Transformer | TrainedModel):
            raise ValueError(f"{name}: expected a Transformer or a run of a training, found {type(model).__name__}")
    config = next(iter(models.values())).config
    if any(model.config.architecture != config.architecture for model in models.values()):
        raise ValueError("models of different configurations: give each an explorer of its own")
    if config.task.letters != Task().letters or config.norm is not None or config.attention_head_size != 1:
        raise ValueError(f"{config}: expected a model for the letters a, b, c, with heads of size 1 and without norm")
    return config


def _is_editable(config: ModelConfig) -> bool:
    small = ModelConfig(config.task, attend_cls=config.attend_cls, length_scaling=config.length_scaling)
    return config.architecture == small


def _views_of(config: ModelConfig, views: Sequence[str] | None) -> list[str]:
    """The views that were asked for, or all that make sense for the model."""
    refused = {} if config.hidden_size == 2 else dict.fromkeys(("embeddings", "path"), "embeddings of two numbers")
    sizes = "the sizes of the model of 36 numbers"
    refused |= {} if _is_editable(config) else dict.fromkeys(("numbers", "training"), sizes)
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
    source = json.dumps(explorer.state_of_page).replace("<", r"\u003c")
    template = (Path(__file__).parent / "explorer.html").read_text(encoding="utf-8")
    bundle = BUNDLE.read_text(encoding="utf-8")
    return template.replace("{{style}}", str(explorer._css)).replace("{{bundle}}", bundle).replace("{{state}}", source)
