from __future__ import annotations

import base64
import copy
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from flowratio import AutoRatio, FlowFeaturizer
from flowratio._support.numbers import count, sig
from flowratio._support.wording import shown
from flowratio.report.evidence import Origin, _latent, _training, gather
from flowratio.report.names import MAX_LENGTH
from flowratio.report.page import write_report
from flowratio.weights import cap, effective_sample_size, temper

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGE, SCRIPT = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"
ORIGIN: Origin = {
    "command": "flowratio fit p.csv q.csv -o model",
    "date": "2026-01-02T03:04:05+00:00",
    "seed": 0,
    "seconds": 1.5,
    "file_p": "p.csv",
    "file_q": f"{IMAGE}.csv",
    "n_p": 300,
    "n_q": 300,
    "proportion": 0.5,
}
CHARTS = ["log-ratio", "weights", "reliability", "balance", "latent", "training"]


class Page(NamedTuple):
    path: Path
    evidence: dict[str, Any]


def table(n: int, shift: float, rng: np.random.Generator) -> pl.DataFrame:
    is_missing = rng.random(n) < 0.2
    return pl.DataFrame(
        {
            IMAGE: rng.normal(shift, 1, n),
            "with missing values": [
                None if missing else float(value) for missing, value in zip(is_missing, rng.normal(size=n), strict=True)
            ],
            SCRIPT: rng.choice([IMAGE, "baker", "a category whose name is so long that it fills a line"], n).tolist(),
            "a_column_with_a_name_that_is_very_long_and_has_no_blank_at_all": rng.random(n),
        }
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Write a report of two tables with hostile names, with every section."""
    rng = np.random.default_rng(0)
    P, Q = table(600, 1.0, rng), table(600, 0.0, rng)
    auto = AutoRatio(["lda", "logistic"], n_folds=2, random_state=0)
    ratio = auto.fit_samples(P[:300], Q[:300])
    X = np.concatenate([ratio.design(frame[:300]).matrix for frame in (P, Q)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three epochs are few
        flow = FlowFeaturizer(max_epochs=3, hidden=(8,), n_blocks=1, random_state=0).fit(X)
    evidence = gather(ratio, P[300:], Q[300:], origin=ORIGIN)
    designs = (ratio.design(frame[300:]).matrix for frame in (P, Q))
    evidence |= {"latent": _latent(ratio, flow, *designs), "training": _training(flow)}
    return Page(write_report(evidence, tmp_path_factory.mktemp("report") / "page.html"), evidence)


@pytest.fixture(scope="module")
def wide_page(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Write the same report with everything that makes it long: columns, categories, candidates and problems."""
    evidence = copy.deepcopy(page.evidence)
    text = next(one for one in evidence["columns"] if one["kind"] == "category")
    long_list = [
        {"category": f"category number {k} of this column", "p": 0.01 * k, "q": 0.1, "is_clear": True}
        for k in range(10)
    ]
    text["changes"] |= {"n_new": 90, "new": long_list, "n_vanished": 90, "vanished": long_list, "changed": long_list}
    evidence["columns"] += [{**one, "name": f"{one['name']} {k}"} for k in range(15) for one in evidence["columns"]]
    evidence["test"]["drivers"] = [
        {"column": one["name"], "effect": 0.1, "p_value": 0.005, "kind": "mean"} for one in evidence["columns"]
    ]
    evidence["candidates"]["table"] *= 9
    evidence["diagnosis"] |= {"verdict": "do not use", "warnings": ["A long problem of the rows of p. " * 8] * 8}
    return Page(write_report(evidence, tmp_path_factory.mktemp("wide") / "page.html"), evidence)


@pytest.fixture
def browser(chromium: Chrome, page: Page) -> Chrome:
    """Open the page again, as wide as a laptop, in light colors."""
    look(chromium, 1280, "light")
    chromium.get(page.path.as_uri())
    return chromium


def look(driver: Chrome, width: int, colors: str = "light", media: str = "screen") -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": colors}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def run(driver: Chrome, script: str, *values: Any) -> Any:
    return driver.execute_script(script, *values)


def text(driver: Chrome, name: str) -> str:
    return run(driver, "return document.getElementById(arguments[0]).textContent", name)


def slide(driver: Chrome, name: str, value: int) -> None:
    run(
        driver,
        "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'))",
        name,
        value,
    )


def test_opens_without_errors_and_loads_nothing(browser: Chrome) -> None:
    assert browser.get_log("browser") == []
    assert run(browser, "return performance.getEntriesByType('resource').map((one) => one.name)") == []
    script = "return document.querySelectorAll('#chart-' + arguments[0] + ' svg *').length"
    assert [name for name in CHARTS if run(browser, script, name) < 10] == []
    sparks = (
        "return [...document.querySelectorAll('#drivers .spark')].map((one) => one.querySelectorAll('rect').length)"
    )
    assert min(run(browser, sparks)) >= 3


def test_hostile_names_do_not_run(browser: Chrome, page: Page) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    assert run(browser, "return [document.images.length, document.scripts.length]") == [0, 2]
    names = run(browser, "return [...document.querySelectorAll('#drivers tbody th')].map((one) => one.firstChild.data)")
    assert names == [one["name"] for one in page.evidence["columns"]]
    assert run(browser, "return document.title") == f"{IMAGE}.csv and p.csv: do they differ?"


def test_policy_stops_other_scripts(browser: Chrome) -> None:
    """Even if a name came through unescaped, it would not run."""
    run(browser, "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.came = 1\">')")
    run(
        browser,
        "const s = document.createElement('script'); s.textContent = 'window.came = 2'; document.body.append(s)",
    )
    assert run(browser, "return window.came === undefined")
    browser.get_log("browser")  # what the policy said of it


def test_headers_sort(browser: Chrome) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    def shares(at: int) -> list[float]:
        values = (
            "return [...document.querySelectorAll('#drivers tbody tr')].map((one) => one.cells[arguments[0]].dataset.v)"
        )
        return [float(value) for value in run(browser, values, at)]

    def order() -> list[str | None]:
        return [head.get_attribute("aria-sort") for head in heads]

    heads = browser.find_elements(By.CSS_SELECTOR, "#drivers thead th")
    assert order()[:3] == [None, "descending", None]
    assert shares(1) == sorted(shares(1), reverse=True)
    heads[4].find_element(By.TAG_NAME, "button").click()
    assert shares(4) == sorted(shares(4), reverse=True)
    assert len(set(shares(4))) > 1
    assert (order()[1], order()[4]) == (None, "descending")
    heads[4].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert shares(4) == sorted(shares(4))
    assert order()[4] == "ascending"
    heads[2].find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    sizes = [abs(value) for value in shares(2)]
    assert sizes == sorted(sizes, reverse=True)
    heads[0].find_element(By.TAG_NAME, "button").click()
    names = run(browser, "return [...document.querySelectorAll('#drivers tbody th')].map((one) => one.dataset.v)")
    assert (names[-1], order()[0]) == ("with missing values", "ascending")
    script = "return document.querySelectorAll('#drivers tbody tr .spark svg').length"
    assert run(browser, script) == len(names)


def test_sliders_change_draws_and_balance(browser: Chrome, page: Page) -> None:
    fitted = {name: text(browser, name) for name in ("now-ess", "now-worst", "now-mean", "now-half", "now-largest")}
    log_q, balance = np.array(page.evidence["rows"]["log_q"]), page.evidence["diagnosis"]["balance"]
    assert fitted["now-ess"] == count(effective_sample_size(log_q))
    dots = "return [...document.querySelectorAll('#chart-balance .ink-mark')].map((one) => one.getAttribute('d'))"
    curve = "return document.querySelector('#chart-weights .ink-line').getAttribute('d')"
    before, lorenz = run(browser, dots), run(browser, curve)

    slide(browser, "temper", 50)
    assert text(browser, "temper-text") == "γ = 0.50"
    line = "w = self_normalize(temper(log_r, 0.5), total=len(log_r))"
    assert text(browser, "code") == f"from flowratio import self_normalize, temper\n{line}"
    assert text(browser, "now-ess") == count(effective_sample_size(temper(log_q, 0.5)))
    assert (run(browser, dots) != before, run(browser, curve) != lorenz) == (True, True)

    slide(browser, "temper", 100)  # all weights alike: as before weighting
    assert text(browser, "now-ess") == count(len(log_q))
    # the page has rows of four digits, and the text three
    assert float(text(browser, "now-worst")) == pytest.approx(np.abs(balance["before"]).max(), rel=0.01)
    assert float(text(browser, "now-mean")) == pytest.approx(np.abs(balance["before"]).mean(), rel=0.01)

    slide(browser, "temper", 0)
    slide(browser, "cap", 60)
    limit = float(text(browser, "code").split("cap(log_r, ")[1].split(")")[0])
    assert text(browser, "cap-text") == f"cap {sig(limit)} × mean"
    # the cap of the text has three digits
    assert float(text(browser, "now-ess")) == pytest.approx(effective_sample_size(cap(log_q, limit)), rel=0.01)
    assert limit < float(fitted["now-largest"])
    assert float(text(browser, "now-largest")) == pytest.approx(limit, rel=0.01)

    run(browser, "document.getElementById('reset').click()")
    assert {name: text(browser, name) for name in fitted} == fitted
    assert run(browser, dots) == before


def test_slider_has_keys_and_words(browser: Chrome) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    slider = browser.find_element(By.ID, "temper")
    slider.send_keys(Keys.ARROW_RIGHT * 10)
    assert slider.get_attribute("aria-valuetext") == text(browser, "temper-text") == "γ = 0.90"


def test_dark_and_light(browser: Chrome) -> None:
    from selenium.webdriver.common.by import By

    paper = "return getComputedStyle(document.body).backgroundColor"
    light, button = run(browser, paper), browser.find_element(By.ID, "theme")
    assert (button.text, button.get_attribute("aria-pressed")) == ("Dark", "false")
    button.click()
    dark = run(browser, paper)
    assert (dark != light, button.text, button.get_attribute("aria-pressed")) == (True, "Light", "true")
    button.click()
    assert run(browser, paper) == light
    run(browser, "delete document.documentElement.dataset.theme")
    look(browser, 1280, "dark")
    assert run(browser, paper) == dark
    look(browser, 1280, "dark", media="print")
    assert run(browser, "return getComputedStyle(document.body).color") == run_in_light(browser)


def run_in_light(browser: Chrome) -> str:
    look(browser, 1280, "light")
    return run(browser, "return getComputedStyle(document.body).color")


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_no_scroll_sideways(width: int, browser: Chrome) -> None:
    look(browser, width)
    browser.refresh()
    run(browser, "for (const one of document.querySelectorAll('details')) one.open = true")
    room = "const root = document.documentElement; return [root.scrollWidth - root.clientWidth, innerWidth]"
    assert run(browser, room) == [0, width]
    assert browser.get_log("browser") == []


def test_hover_shows_numbers(browser: Chrome, page: Page) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    row = browser.find_element(By.CSS_SELECTOR, "#chart-balance .hit")
    # the event of a scroll, which hides the tip, comes with the next frame: before what that frame was asked to call
    arrive = "arguments[0].scrollIntoView({block: 'center'}); requestAnimationFrame(arguments[1])"
    browser.execute_async_script(arrive, row)
    ActionChains(browser).move_to_element(row).perform()
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed()
    first = page.evidence["rows"]["columns"][0]
    assert tip.text.startswith(page.evidence["diagnosis"]["balance"]["names"][first])


def test_words_and_tables_without_a_script(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        values = browser.find_element("tag name", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for words in (
        "scripts are off here",
        "What should I do?",
        "Effective sample size",
        "Candidates",
        "How to repeat this",
    ):
        assert words in values
    for words in ("Temper\n", "Back to as fitted"):
        assert words not in values


def n_printed_pages(driver: Chrome) -> int:
    """Print on A4 paper, as a browser does from a window of its own size."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    sheet = {"paperWidth": 8.27, "paperHeight": 11.69}
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", sheet)["data"])
    assert printed.startswith(b"%PDF")
    return len(re.findall(rb"/Type\s*/Page\b", printed))


def test_prints_all_sections_on_four_pages(browser: Chrome) -> None:
    assert 1 < n_printed_pages(browser) <= 4
    look(browser, 800, media="print")
    text = browser.find_element("tag name", "body").text
    for words in ("Log-ratio of the rows", "Reliability", "Balance", "Latent space", "Training of the flow"):
        assert words in text
    assert "Back to as fitted" not in text


def test_many_columns_print_on_four_pages(browser: Chrome, wide_page: Page) -> None:
    browser.get(wide_page.path.as_uri())
    assert 1 < n_printed_pages(browser) <= 4


def test_numbers_of_a_chart_from_the_keyboard(browser: Chrome, page: Page) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    def press(key: str) -> None:
        ActionChains(browser).send_keys(key).perform()
        # the first value of a chart comes with the next frame
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    browser.find_element(By.CSS_SELECTOR, "#weighted summary").send_keys(Keys.SHIFT + Keys.TAB)
    press(Keys.NULL)
    assert run(browser, "return document.activeElement.closest('.chart').id") == "chart-balance"
    tip = browser.find_element(By.ID, "tip")
    all_names = page.evidence["diagnosis"]["balance"]["names"]
    names = [shown(all_names[k], MAX_LENGTH) for k in page.evidence["rows"]["columns"]]
    assert tip.text.startswith(names[0])
    press(Keys.ARROW_DOWN)
    assert tip.text.startswith(names[1])
    assert text(browser, "tip-text").startswith(names[1])
    press(Keys.END)
    assert tip.text.startswith(names[-1])
    press(Keys.ESCAPE)
    assert not tip.is_displayed()
    press(Keys.HOME)
    assert tip.text.startswith(names[0])
    press(Keys.TAB)
    assert not tip.is_displayed()


ACCESS = """
const problems = [];
const root = document.documentElement;
const say = (rule, node) => problems.push(`${rule}: ${node.outerHTML.slice(0, 90)}`);
if (!root.lang) say("language", root);
for (const name of ["header", "main", "footer"]) if (document.querySelectorAll(name).length !== 1) say(name, root);
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) say(`id ${id} twice`, document.getElementById(id));
const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((one) => Number(one.tagName[1]));
levels.forEach((level, k) => { if (level > (k ? levels[k - 1] : 0) + 1) say("order of headings", document.body); });
for (const one of document.querySelectorAll("svg:not([aria-hidden])"))
  if (one.getAttribute("role") !== "img" || !one.getAttribute("aria-label")) say("picture without a name", one);
for (const one of document.querySelectorAll("input")) if (!one.labels.length) say("control without a label", one);
for (const one of document.querySelectorAll("button, summary, a"))
  if (!(one.getAttribute("aria-label") || one.textContent).trim()) say("no name", one);
for (const one of document.querySelectorAll("th")) if (!one.textContent.trim()) say("empty header", one);

const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = channels(color).map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const below = (node) => {
  for (let one = node; one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (channels(color).length < 4 || channels(color)[3] === 1) return color;
  }
  return "rgb(255, 255, 255)";
};
let n = 0;
for (const one of document.querySelectorAll("body *")) {
  const isText = [...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim());
  const style = getComputedStyle(one);
  if (!isText || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(one.tagName) || !one.getClientRects().length) continue;
  const [a, b] = [one.tagName === "text" ? style.fill : style.color, below(one)].map(luminance);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  n += 1;
  if (contrast < 4.5) say(`contrast ${contrast.toFixed(1)}`, one);
}
for (const one of document.querySelectorAll("button, input, summary, a, [tabindex='0']")) {
  one.focus({ focusVisible: true });
  const style = getComputedStyle(one);
  if (one.checkVisibility() && (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2)) say("focus", one);
}
return [n, problems];
"""


@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("verdict", ["reliable", "use with care", "do not use"])
def test_page_is_accessible(verdict: str, colors: str, browser: Chrome, page: Page, tmp_path: Path) -> None:
    diagnosis = {**page.evidence["diagnosis"], "verdict": verdict, "warnings": ["A problem of rows of p."]}
    look(browser, 1280, colors)
    browser.get(write_report({**page.evidence, "diagnosis": diagnosis}, tmp_path / "page.html").as_uri())
    run(browser, "for (const one of document.querySelectorAll('details')) one.open = true")
    n_texts, problems = run(browser, ACCESS)
    assert n_texts > 200
    assert problems == []


def test_check_of_access_finds_problems(browser: Chrome) -> None:
    spoiled = (
        "<h4>too deep</h4>",
        "<input>",
        "<svg></svg>",
        "<p style='color: #999'>faint</p>",
        "<p id='tip'>twice</p>",
        "<button style='outline: none'>no focus</button>",
        "<table><tr><th></th></tr></table>",
    )
    for element in spoiled:
        run(browser, "document.querySelector('#answers').insertAdjacentHTML('afterbegin', arguments[0])", element)
        assert run(browser, ACCESS)[1] != [], element
        browser.refresh()
    run(browser, "document.documentElement.lang = ''")
    assert run(browser, ACCESS)[1] != []
