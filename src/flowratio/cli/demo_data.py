"""The tables of the demo: customers in two years, and retired customers, whom few of them resemble."""

from __future__ import annotations

import numpy as np
import polars as pl

_CITIES = {"Berlin": 0.3, "Lisbon": 0.25, "Oslo": 0.2, "Porto": 0.15, "Vienna": 0.1}
_PLANS = {"basic": 0.6, "plus": 0.3, "pro": 0.1}
_MISSING = 0.06  # share of missing incomes and cities
_FIRST_DAY, _DAYS = np.datetime64("2021-01-01"), 1_400


def customers(
    n: int, rng: np.random.Generator, *, age: float = 41.0, spread: float = 11.0, non_citizens: float = 0.23
) -> pl.DataFrame:
    """Draw n customers with this mean and standard deviation of the age, and this share of non-citizens.

    The other columns do not depend on age and citizen, so they do not change if these two do.
    """
    city, plan = (rng.choice(list(shares), n, p=list(shares.values())) for shares in (_CITIES, _PLANS))
    income = np.exp(rng.normal(10.3, 0.45, n) + 0.2 * (city == "Oslo")).round(-2)
    visits = rng.poisson(np.select([plan == "basic", plan == "plus"], [3, 6], 12))
    missing = [rng.random(n) < _MISSING for _ in range(2)]
    return pl.DataFrame(
        {
            "age": rng.normal(age, spread, n).round().clip(18, 95).astype(int),
            "income": pl.Series(income).set(pl.Series(missing[0]), None),
            "city": pl.Series(city).set(pl.Series(missing[1]), None),
            "plan": plan,
            "visits": visits,
            "signup_date": _FIRST_DAY + rng.integers(0, _DAYS, n),
            "citizen": np.where(rng.random(n) < non_citizens, "No", "Yes"),
        }
    )
