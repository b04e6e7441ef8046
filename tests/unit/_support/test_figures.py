"""Figures that notebooks show."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO

from matplotlib.figure import Figure

from flowratio._support.figures import new_figure


def test_a_figure_is_an_image_and_a_figure_of_matplotlib() -> None:
    figure = new_figure(2, 1)
    figure.add_subplot().plot([1, 2])
    assert isinstance(figure, Figure)
    image = figure._repr_png_()  # pyright: ignore[reportAttributeAccessIssue]
    assert image.startswith(b"\x89PNG")
    assert (int.from_bytes(image[16:20], "big"), int.from_bytes(image[20:24], "big")) == (200, 100)
    figure.savefig(BytesIO(), format="svg")


def test_no_global_state() -> None:
    code = "import sys; from flowratio._support.figures import new_figure as f; f(2, 1)._repr_png_()"
    subprocess.run([sys.executable, "-c", f"{code}; sys.exit('matplotlib.pyplot' in sys.modules)"], check=True)
