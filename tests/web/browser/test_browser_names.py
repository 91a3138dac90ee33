"""Names that try to be something else than names."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from harness.browser import Visitors
from levers.core.space import Space
from levers.studies.library import create_study, load_study

SCRIPT, LONG, TURNED = "<script>alert(1)</script>", "long " + "x" * 195, "abc\u202edcba 123"
NAMES = {
    "script": SCRIPT,
    "quotes": "\"two\" 'one' &amp; <img src=x onerror=alert(2)> \u05d0\u05d1\u05d2 \U0001f527 \u6f22",
    "address": "a/b 100 % of %2F?x=1#y",
    "long": LONG,
}
SPACE = Space.of(
    {
        SCRIPT: ["</td><script>alert(3)</script>", '"; alert(4); "', "&lt;b&gt;"],
        TURNED: [TURNED, "\u05e9\u05dc\u05d5\u05dd"],
        LONG: [LONG, "y" * 200],
        "a/b & 'c'": ["100 %", "\U0001f469\u200d\U0001f527"],
    }
)


def is_harmless(page: Page) -> None:
    """Only the scripts of every page and that of its kind are there, and nothing that a name could have brought."""
    kind = page.locator("body").get_attribute("data-page")
    own = [f"{kind}.js"] if kind in ("study", "new") else []
    found = page.locator("script").evaluate_all("(all) => all.map((script) => script.getAttribute('src') ?? 'inline')")
    assert [re.sub(r"^/static/\w+/", "", src) for src in found] == ["theme.js", "main.js", *own]
    assert page.locator("img, iframe, object, [onerror], [onload]").count() == 0


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_every_page_of_a_study_with_a_hostile_name(people: Visitors, shared: str, name: str) -> None:
    study = create_study(name, SPACE, tolerance=1.5, noise_sd=1.0, seed=1, storage=shared, who=SCRIPT)
    rng = np.random.default_rng(0)
    for trial in study.ask(10_000):
        study.tell(trial, float(rng.normal()))
    study.ask(3, worker="<b>eve</b>")
    page = people.new_page()
    page.goto("/")
    page.locator(f"tr[data-study={_quoted(name)}] a").click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("#live")).to_have_text("live")
    expect(page).to_have_title(f"{name} - levers")
    heads = page.locator("table.runs thead th bdi")
    expect(heads).to_have_count(SPACE.n_factors)
    assert heads.nth(3).text_content() == "a/b & 'c'"
    assert heads.nth(1).text_content() == TURNED
    assert heads.nth(2).get_attribute("title") == LONG
    is_harmless(page)
    page.get_by_label("How many").fill("1")  # the address of the form has the name in it, as those of all links below
    page.get_by_role("button", name="Ask for runs").click()
    expect(page.locator("#runs-body tr[data-state=open]")).to_have_count(4)
    page.get_by_label(re.compile("^Outcome of trial")).first.fill("1")
    page.get_by_role("button", name="Save all").last.click()
    expect(page.locator("#said")).to_have_text("1 outcome saved.")
    with page.expect_download() as found:
        page.locator("#sheet-csv").click()
    assert SCRIPT in found.value.path().read_text(encoding="utf-8-sig")
    page.locator("#checks").scroll_into_view_if_needed()
    expect(page.locator("#chart-residuals")).to_be_visible()
    is_harmless(page)
    for tab in ("Trials", "Verdict", "Compare"):
        page.get_by_label("This study").get_by_role("link", name=tab).click()
        is_harmless(page)
        if tab != "Compare":
            expect(page.locator("h1")).to_have_text(name)
        if tab == "Trials":
            page.locator("#trials th a[data-sort^='factor:']").first.click()
            expect(page.locator("#trials th[aria-sort=ascending]")).to_contain_text(SCRIPT)
            page.locator("#trials tbody a").first.click()
            expect(page.locator("dl.setting dt").first).to_have_text(SCRIPT)
            is_harmless(page)
    expect(page.locator("#compared thead a")).to_have_count(1)
    page.locator("#compared thead a").click()
    expect(page.locator("h1")).to_have_text(name)
    page.locator("#checks").scroll_into_view_if_needed()
    expect(page.locator("#chart-residuals")).to_be_visible()  # it moves what is below it
    page.locator("#delete-link").click()
    is_harmless(page)
    page.get_by_label("Type its name").fill("something else")
    people.expect("status of 422")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.locator("#problem")).to_contain_text("nothing was deleted")
    page.goto(f"/studies/{quote(name, safe='')}/verdict")
    expect(page.locator("h1")).to_have_text(name)


def _quoted(text: str) -> str:
    """As a string of a CSS selector."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_hostile_names_typed_into_the_form(people: Visitors, shared: str) -> None:
    people.expect("status of 422")
    page = people.new_page()
    page.goto("/new")
    page.get_by_label("Name of the study").fill(f"typed {TURNED}")
    rows = {SCRIPT: '</script><script>alert(3)</script>; a, b; "&amp;"', TURNED: f"{TURNED}, x", LONG: "100 %, a/b"}
    for row, (factor, levels) in enumerate(rows.items()):
        page.get_by_label("Lever", exact=True).nth(row).fill(factor)
        page.get_by_label("Levels, with commas between them").nth(row).fill(levels)
    page.locator("#tolerance").fill("1")
    page.locator("#noise_sd").fill("1")
    expect(page.locator("#plan-worst")).to_be_visible()
    page.get_by_role("button", name="Begin the study").last.click()
    # text that turns the text around it is refused in the name, which stands in lists and addresses
    expect(page.locator("#problem-name")).to_contain_text("must be printable")
    is_harmless(page)
    expect(page.get_by_label("Lever", exact=True).nth(0)).to_have_value(SCRIPT)
    page.get_by_label("Name of the study").fill(f"typed {SCRIPT}")
    page.get_by_role("button", name="Begin the study").last.click()
    expect(page.locator("h1")).to_have_text(f"typed {SCRIPT}")
    is_harmless(page)
    factors = load_study(f"typed {SCRIPT}", shared).space.factors
    assert {factor.name: factor.levels for factor in factors} == {
        SCRIPT: ("</script><script>alert(3)</script>", "a, b", "&amp;"),
        TURNED: (TURNED, "x"),
        LONG: ("100 %", "a/b"),
    }
