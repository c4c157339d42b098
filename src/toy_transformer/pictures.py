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


class Picture:
    """A finished picture. Displayed, it is followed by its text alternative, folded up.

    JupyterLab drops the alternative text of a PNG, so the words stand beside it as well.
    """

    def __init__(self, drawn: Axes | Figure):
        figure = drawn.figure if isinstance(drawn, Axes) else drawn
        self.words = " ".join(ax.get_label() for ax in figure.axes if ax.get_label())
        png = BytesIO()
        figure.savefig(png, format="png")
        self.png = png.getvalue()
        dots = int.from_bytes(self.png[16:20])  # the width in a PNG's header
        self.width = round(dots * figure.dpi / plt.rcParams["savefig.dpi"])
        plt.close(figure)

    @property
    def words_html(self) -> str:
        return f"<details><summary>This picture in words</summary>{html.escape(self.words)}</details>"

    def __repr__(self) -> str:
        return self.words

    def _ipython_display_(self) -> None:
        bundle = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.words}
        display(bundle, raw=True, metadata={"image/png": {"alt": self.words, "width": self.width}})
        display({"text/html": self.words_html}, raw=True)


class LivePicture(widgets.VBox):
    """A control and a picture that follows it: `draw` gets the control's value and returns `Axes`.

    Where `draw` raises `ValueError`, its message is shown and the last good picture stays.
    """

    def __init__(self, control: widgets.ValueWidget, draw: Callable[..., Axes | Figure]):
        self.control, self.draw = control, draw
        self.image = widgets.Image(format="png", layout={"max_width": "100%", "object_fit": "contain"})
        self.message = widgets.HTML()
        self.picture = Picture(draw(control.value))
        super().__init__([control, self.message, self.image])
        self._show()
        control.observe(lambda change: self.update(), names="value")

    def update(self) -> None:
        try:
            self.picture = Picture(self.draw(self.control.value))
        except ValueError as error:
            self.message.value = f'<span role="alert">{html.escape(str(error))}</span>'
        else:
            self._show()

    def _show(self) -> None:
        self.image.value, self.image.width = self.picture.png, str(self.picture.width)
        self.image.tooltip = self.picture.words
        self.message.value = self.picture.words_html

    def __repr__(self) -> str:
        return self.picture.words

    def _repr_mimebundle_(self, **kwargs) -> dict:
        """Add the picture and its words: a saved notebook shows these where there is no kernel."""
        png = base64.b64encode(self.picture.png).decode()
        return super()._repr_mimebundle_(**kwargs) | {"image/png": png, "text/plain": self.picture.words}
