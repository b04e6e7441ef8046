"""The page docs/interactive.md in a browser: its numbers are those of NumPy, SciPy, scikit-learn and the library."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from flowratio.diagnostics.balance import Balance, table_balance
from flowratio.diagnostics.compared_columns import ComparedColumns
from flowratio.diagnostics.overlap import overlap
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import Finding, low_overlap, out_of_range, verdict_of

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = (DOCS / "interactive.md").read_text(encoding="utf-8")
PRESETS = ["small shift", "large shift", "no overlap", "different spread", "rare group"]
N = 400


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the elements of the Markdown page to a page of their own."""
    elements = re.search(r"^<link.*^<script[^\n]*$", SOURCE, re.DOTALL | re.MULTILINE)
    assert elements is not None
    path = tmp_path_factory.mktemp("interactive") / "page.html"
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f'<link rel="icon" href="data:,"><base href="{DOCS.as_uri()}/">'
    path.write_text(f'{head}<body style="margin: 8px">{elements[0]}</body>', encoding="utf-8")
    return path


@pytest.fixture
def browser(chromium: Chrome, page: Path) -> Chrome:
    resize(chromium, 1280)
    chromium.get(page.as_uri())
    return chromium


def resize(driver: Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def run(driver: Chrome, script: str, *values: Any) -> Any:
    return driver.execute_script(script, *values)


def state(driver: Chrome) -> dict[str, Any]:
    """Return the state of the page after the next frame."""
    return driver.execute_async_script("requestAnimationFrame(() => setTimeout(() => arguments[0](window.twoClouds)))")


def choose(driver: Chrome, preset: str, features: str = "quadratic") -> dict[str, Any]:
    click(driver, f"[data-preset='{preset}']")
    click(driver, f"[value='{features}']")
    return state(driver)


def click(driver: Chrome, selector: str) -> None:
    run(driver, "document.querySelector(arguments[0]).click()", selector)


def text(driver: Chrome, name: str) -> str:
    return run(driver, "return document.getElementById('tc-' + arguments[0]).textContent", name)


def knob(driver: Chrome, name: str, kind: str = "center") -> WebElement:
    return driver.find_element("css selector", f"#two-clouds .knob.{kind}.of-{name}")


def samples(page: dict[str, Any], log_r: str = "logR") -> list[ScoredSample]:
    share = np.full(N, 1 / N)
    return [ScoredSample(np.array(page["points"][k]), np.array(page[log_r][k]), share) for k in ("p", "q")]


def log_density(page: dict[str, Any], name: str, X: np.ndarray) -> np.ndarray:
    cloud, group = page["scene"][name], page["scene"]["group"]
    main, rare = (multivariate_normal([at["x"], at["y"]], at["s"] ** 2) for at in (cloud, group))
    return np.log((1 - cloud["share"]) * main.pdf(X) + cloud["share"] * rare.pdf(X))


def true_kl(page: dict[str, Any]) -> float:
    """Integrate p log r over cells of width 0.1."""
    at = np.arange(-14, 14, 0.1)
    X = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    p, q = (log_density(page, name, X) for name in ("p", "q"))
    has_p = p > -80  # beyond it p is 0 and the density of q underflows
    return float(np.sum(np.exp(p[has_p]) * (p[has_p] - q[has_p])) * 0.1**2)


def check_numbers(page: dict[str, Any]) -> None:
    """Compare the numbers of a page with those of the same points in Python."""
    p, q = samples(page)
    X, y = np.concatenate([p.X, q.X]), np.repeat([1, 0], N)
    products = PolynomialFeatures(2 if page["isQuadratic"] else 1, include_bias=False)
    model = make_pipeline(StandardScaler(), products, LogisticRegression(tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(np.concatenate([p.log_r, q.log_r]), model.decision_function(X), atol=1e-3)
    exact_p, exact_q = samples(page, "trueLogR")
    for sample in (exact_p, exact_q):
        with np.errstate(divide="ignore"):
            expected = log_density(page, "p", sample.X) - log_density(page, "q", sample.X)
        is_finite = np.isfinite(expected)  # a density of SciPy can be 0
        np.testing.assert_allclose(sample.log_r[is_finite], expected[is_finite], atol=1e-8)
    for of, numbers in (((p, q), page["estimate"]), ((exact_p, exact_q), page["exact"])):
        check_overlap(*of, numbers)
    mean = overlap(p, q, p.log_r, q.log_r).kl
    assert page["estimate"]["kl"] == pytest.approx(mean, abs=1e-9)
    off = np.concatenate([p.log_r - exact_p.log_r, q.log_r - exact_q.log_r])
    assert page["error"] == pytest.approx(np.sqrt(np.mean(off**2)))
    check_verdict(page, p, q, float(np.mean((p.log_r - exact_p.log_r) ** 2)))


def balance_of(p: ScoredSample, q: ScoredSample, inflation: float) -> Balance:
    columns = ComparedColumns(["x", "y"], np.arange(2), np.arange(2), [])
    return table_balance(p, q, columns, (np.arange(N), N + np.arange(N)), inflation)


def check_overlap(p: ScoredSample, q: ScoredSample, numbers: dict[str, Any]) -> None:
    of, w = overlap(p, q, p.log_r, q.log_r), q.tilted().share
    assert numbers["ess"] == pytest.approx(of.ess_q) == pytest.approx(1 / np.sum(w**2))
    assert numbers["largestWeight"] == pytest.approx(N * w.max())
    assert numbers["meanWeighted"] == pytest.approx(w @ q.X)
    assert numbers["beyond"] == pytest.approx(of.share_p_beyond_q)
    assert numbers["inflation"] == pytest.approx(of.inflation_q)
    if math.isfinite(of.k_hat_q):
        assert numbers["kHat"] == pytest.approx(of.k_hat_q, abs=1e-6)
    after = balance_of(p, q, of.inflation_q)
    assert [one["after"] for one in numbers["balance"]] == pytest.approx(after.after)
    assert [one["error"] for one in numbers["balance"]] == pytest.approx(after.standard_error)


def check_verdict(page: dict[str, Any], p: ScoredSample, q: ScoredSample, squared_error: float) -> None:
    """Compare the verdict with that of the library's checks of overlap, of means, and of the true error."""
    of = overlap(p, q, p.log_r, q.log_r)
    findings = low_overlap(of) + out_of_range(p, q, ["x", "y"])
    after = balance_of(p, q, of.inflation_q)
    chance = float(-ndtri(THRESHOLDS.chance / 4)) + THRESHOLDS.skew
    size = max([0.0, *np.abs(after.after)[np.abs(after.after) > chance * after.standard_error]])
    if of.ess_q >= THRESHOLDS.fewest_ess and size > THRESHOLDS.difference:
        findings.append(Finding("means", bool(size > THRESHOLDS.difference_grave)))
    if squared_error > THRESHOLDS.stability:
        findings.append(Finding("error", squared_error > THRESHOLDS.stability_grave))
    assert sorted(one["grave"] for one in page["findings"]) == sorted(finding.grave for finding in findings)
    assert page["verdict"] == str(verdict_of(findings))


def test_opens_without_errors_and_loads_its_own_files(browser: Chrome) -> None:
    assert browser.get_log("browser") == []
    files = run(browser, "return [...document.scripts].map((one) => one.src)")
    assert [Path(name).name for name in files] == ["interactive-math.js", "interactive.js"]
    assert all(name.startswith("file:") for name in files)
    assert run(browser, "return performance.getEntriesByType('resource').map((one) => one.name)") == []


@pytest.mark.parametrize("features", ["linear", "quadratic"])
@pytest.mark.parametrize("preset", PRESETS)
def test_numbers_of_presets(browser: Chrome, preset: str, features: str) -> None:
    page = choose(browser, preset, features)
    assert (page["preset"], page["isQuadratic"]) == (preset, features == "quadratic")
    check_numbers(page)
    assert page["exact"]["kl"] == pytest.approx(true_kl(page), rel=1e-4)


def test_verdicts_of_presets(browser: Chrome) -> None:
    expected = ["reliable", "use with care", "do not use", "reliable", "use with care"]
    assert [choose(browser, preset)["verdict"] for preset in PRESETS] == expected
    assert choose(browser, "different spread", "linear")["verdict"] == "use with care"


def test_limits_are_those_of_the_library(browser: Chrome) -> None:
    limits = state(browser)["thresholds"]
    assert limits == {name: getattr(THRESHOLDS, name) for name in limits}
    assert f"{-ndtri(THRESHOLDS.chance / 4) + THRESHOLDS.skew:.2f}" == run(browser, "return String(TwoClouds.CHANCE)")


def test_texts_show_the_numbers(browser: Chrome) -> None:
    page = choose(browser, "small shift")
    assert text(browser, "ess") == "270 of 400 (67 %)"
    assert page["estimate"]["ess"] == pytest.approx(269.7, abs=0.1)
    assert text(browser, "kl") == f"{page['estimate']['kl']:.2f}"
    assert text(browser, "error") == f"{page['error']:.2f}"
    assert text(browser, "true-largest") == f"{page['exact']['largestWeight']:.1f}"
    assert text(browser, "mean-p") == ", ".join(f"{value:.2f}" for value in page["means"]["p"])
    script = (
        "return [...document.querySelectorAll('#two-clouds .badge, #two-clouds .reason')].map((one) => one.textContent)"
    )
    assert run(browser, script) == [page["verdict"], page["reason"]]


def test_text_of_the_page_has_the_right_numbers(browser: Chrome) -> None:
    """The section "What to try" quotes numbers of the presets."""
    small, none, spread = (
        choose(browser, *of) for of in (["small shift"], ["no overlap"], ["different spread", "linear"])
    )
    assert f"The effective sample size (ESS) is {small['estimate']['ess']:.0f} of 400" in SOURCE
    assert f"The true ESS is {none['exact']['ess']:.0f} of 400" in SOURCE
    assert f"The estimated ESS is {none['estimate']['ess']:.0f}" in SOURCE
    assert spread["estimate"]["ess"] > 390


def test_verdict_gets_worse_as_p_moves_away(browser: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    verdicts = [choose(browser, "small shift")["verdict"]]
    for _ in range(5):
        knob(browser, "p").send_keys(Keys.ARROW_RIGHT * 8)
        page = state(browser)
        check_numbers(page)
        verdicts.append(page["verdict"])
    assert list(dict.fromkeys(verdicts)) == ["reliable", "use with care", "do not use"]


def test_keys_move_and_resize_a_cloud(browser: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    before = choose(browser, "small shift")["scene"]
    center = knob(browser, "p")
    center.send_keys(Keys.ARROW_RIGHT * 12, Keys.ARROW_DOWN * 2, "+++", "-")
    page = state(browser)
    moved = page["scene"]["p"]
    assert [moved[key] - before["p"][key] for key in "xys"] == pytest.approx([1.2, -0.2, 0.2])
    assert (page["scene"]["q"], page["preset"]) == (before["q"], "")
    assert center.get_attribute("aria-valuetext") == "center 1.5, 0.0, standard deviation 1.2"
    check_numbers(page)
    knob(browser, "q", "spread").send_keys(Keys.ARROW_UP * 30)
    page = state(browser)
    assert page["scene"]["q"]["s"] == 2.4  # the maximum
    check_numbers(page)
    center.send_keys(Keys.SHIFT, Keys.ARROW_LEFT * 40)
    assert state(browser)["scene"]["p"]["x"] == -6  # the edge


@pytest.mark.parametrize("kind", ["mouse", "touch"])
def test_drag_moves_a_cloud(browser: Chrome, kind: str) -> None:
    before = choose(browser, "small shift")["scene"]
    unit = run(browser, "return document.querySelector('#two-clouds .plot').clientWidth") / 12  # pixels
    drag(browser, knob(browser, "p"), round(2 * unit), round(-unit), kind)
    drag(browser, knob(browser, "q", "spread"), round(-unit), 0, kind)
    page = state(browser)
    moves = [page["scene"]["p"][key] - before["p"][key] for key in "xy"]
    assert [*moves, page["scene"]["q"]["s"] - before["q"]["s"]] == pytest.approx([2, 1, 0.5], abs=1 / unit)
    check_numbers(page)


def drag(driver: Chrome, element: WebElement, dx: int, dy: int, kind: str) -> None:
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    actions = ActionBuilder(driver, mouse=PointerInput(kind, kind), duration=20)
    pointer = actions.pointer_action
    pointer.move_to(element).pointer_down().move_by(dx, dy).pointer_up()
    actions.perform()
    assert run(driver, "return scrollX + scrollY") == 0  # a touch drags, it does not scroll


def test_new_points_change_the_estimate_but_not_the_true_divergence(browser: Chrome) -> None:
    before = choose(browser, "large shift")
    click(browser, "[data-action='draw']")
    after = state(browser)
    assert after["exact"]["kl"] == before["exact"]["kl"]
    assert after["estimate"]["kl"] != before["estimate"]["kl"]
    check_numbers(after)


def test_true_ratio_and_dark_colors_change_the_picture(browser: Chrome) -> None:
    picture = "return document.querySelector('#two-clouds canvas').toDataURL()"
    choose(browser, "different spread", "linear")
    pictures = [run(browser, picture)]
    for script in ("document.querySelector('[value=truth]').click()", "document.body.dataset.mdColorScheme = 'slate'"):
        run(browser, script)
        state(browser)
        pictures.append(run(browser, picture))
    assert len({*pictures}) == 3


@pytest.mark.parametrize("width", [360, 700, 1280])
def test_fits_the_width_and_knobs_are_reachable(browser: Chrome, width: int) -> None:
    resize(browser, width)
    browser.refresh()
    for preset in PRESETS:
        choose(browser, preset)
        room = "const root = document.documentElement; return [root.scrollWidth - root.clientWidth, innerWidth]"
        assert run(browser, room) == [0, width]
        hidden = """return [...document.querySelectorAll('#two-clouds .knob.center:not([hidden])')].filter((one) => {
            const { left, top, width, height } = one.getBoundingClientRect();
            return document.elementFromPoint(left + width / 2, top + height / 2) !== one || width < 24;
        }).length"""
        run(browser, "document.querySelector('#two-clouds .plot').scrollIntoView()")
        assert run(browser, hidden) == 0


def test_knobs_have_names_and_values(browser: Chrome) -> None:
    choose(browser, "rare group")
    knobs = browser.find_elements("css selector", "#two-clouds .knob")
    assert len({one.get_attribute("aria-label") for one in knobs}) == 5
    for one in knobs:
        assert (one.get_attribute("role"), one.get_attribute("tabindex")) == ("slider", "0")
        low, now, high = (float(one.get_attribute(f"aria-value{end}") or "nan") for end in ("min", "now", "max"))
        assert low <= now <= high
