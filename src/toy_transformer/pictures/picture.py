"""How a picture reaches its reader: as a PNG with its numbers in words, still or following a control."""

import base64
import html
from collections.abc import Callable
from io import BytesIO

import ipywidgets as widgets
import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def words_of(figure: Figure) -> str:
    """Give what the functions that draw have left in words on the axes of a figure."""
    return " ".join(ax.words for ax in figure.axes if hasattr(ax, "words"))


class Picture:
    """A finished picture. Displayed, it is followed by its text alternative, folded up.

    JupyterLab drops the alternative text of a PNG, so the words stand beside it as well.
    """

    def __init__(self, drawn: Axes | Figure, words: str | None = None):
        figure = drawn.figure if isinstance(drawn, Axes) else drawn
        self.words = words or words_of(figure)
        png = BytesIO()
        with plt.style.context("toy_transformer.pictures.style"):
            figure.savefig(png, format="png")
            self.png = png.getvalue()
            dots = int.from_bytes(self.png[16:20])  # the width in a PNG's header
            self.width = round(100 * dots / plt.rcParams["savefig.dpi"])
        plt.close(figure)

    @property
    def png_base64(self) -> str:
        return base64.b64encode(self.png).decode()

    @property
    def words_html(self) -> str:
        return f"<details><summary>This picture in words</summary>{html.escape(self.words)}</details>"

    @property
    def image_html(self) -> str:
        source = f'src="data:image/png;base64,{self.png_base64}" alt="{html.escape(self.words)}"'
        return f'<img {source} width="{self.width}" style="max-width: 100%" decoding="sync">{self.words_html}'

    @property
    def bundle(self) -> dict[str, str]:
        return {"image/png": self.png_base64, "text/plain": self.words}

    @property
    def metadata(self) -> dict[str, dict]:
        return {"image/png": {"alt": self.words, "width": self.width}}

    def __repr__(self) -> str:
        return self.words

    def _ipython_display_(self) -> None:
        display(self.bundle, raw=True, metadata=self.metadata)
        display({"text/html": self.words_html}, raw=True)


class WithPicture:
    """A widget with a picture and its words, which a saved notebook shows where there is no kernel."""

    picture: Picture

    @property
    def words(self) -> str:
        return self.picture.words

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        widget, picture = super()._repr_mimebundle_(**kwargs), self.picture  # type: ignore[misc]
        # anywidget gives metadata as well.
        data = widget[0] if isinstance(widget, tuple) else widget
        return data | picture.bundle, picture.metadata


class LivePicture(WithPicture, widgets.VBox):
    """A control and a picture that follows it: `draw` gets the control's value and returns `Axes`.

    Where `draw` raises an error, its message is shown and the last good picture stays.
    """

    def __init__(self, control: widgets.ValueWidget, draw: Callable[..., Axes | Figure]):
        self.control, self.draw = control, draw
        control.layout.width = "min(96%, 30em)"
        self.picture = self._draw()
        self.message, self.view = widgets.HTML(), widgets.HTML(self.picture.image_html)
        super().__init__([control, self.message, self.view])
        control.observe(lambda change: self.update(), names="value")

    def _draw(self) -> Picture:
        already_open = set(plt.get_fignums())
        try:
            return Picture(self.draw(self.control.value))
        finally:
            for number in set(plt.get_fignums()) - already_open:
                plt.close(number)

    def update(self) -> None:
        try:
            self.picture = self._draw()
        except Exception as error:  # what escapes from here, JupyterLab shows nowhere
            self.message.value = f'<span role="alert">{html.escape(str(error))}</span>'
        else:
            self.message.value, self.view.value = "", self.picture.image_html
