"""Figures that a notebook shows, without pyplot and without any setting. Importing this module loads matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    r"""A figure of matplotlib that a notebook shows as an image if it is the last expression of a cell.

    Only figures of pyplot are shown otherwise. Where `%matplotlib inline` is active, its image takes precedence.

    Examples
    --------
    >>> figure = NotebookFigure(figsize=(2, 1))
    >>> figure._repr_png_()[:4]
    b'\x89PNG'
    """

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches. It belongs to no window, and its parts do not overlap."""
    return NotebookFigure(figsize=(width, height), layout="constrained")
