"""Numbers as text."""

from __future__ import annotations

import math

from flowratio.diagnostics.summary import fixed, k_hat_text


def test_k_hat_is_written_in_words_where_there_is_no_number() -> None:
    assert [k_hat_text(k_hat) for k_hat in (0.514, -math.inf, math.inf)] == ["0.51", "no tail", "unknown"]


def test_zero_has_no_sign() -> None:
    assert [fixed(value, 3) for value in (-1e-9, -0.0126)] == ["0.000", "-0.013"]
