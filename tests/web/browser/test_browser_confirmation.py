"""A verdict confirmed by fresh runs, in a real browser: the button, the runs, the answer with its picture."""

from playwright.sync_api import expect

from harness.browser import Visitors
from levers.core.space import Level
from levers.studies.library import create_study

SPACE: dict[str, list[Level]] = {"heat": ["low", "high"], "speed": [1, 2]}


def test_the_button_asks_for_fresh_runs_and_the_page_shows_what_they_say(people: Visitors, shared: str) -> None:
    study = create_study("to be confirmed", SPACE, budget=24, seed=1, storage=shared)
    while due := study.ask(100):
        study.tell_many((t, 5.0 * (t.params["heat"] == "high") + 0.1 * (t.number % 5)) for t in due)
    page = people.new_page(viewport={"width": 1200, "height": 900})
    page.goto(f"/studies/{study.name}/verdict")
    page.get_by_label("Fresh runs at the setting").fill("3")
    page.get_by_role("button", name="Confirm with fresh runs").click()
    expect(page.locator("#go")).to_have_text("Confirm the verdict: fresh runs are awaited")
    page.locator("#ask-button").click()
    boxes = page.locator("#runs-body input[id^=outcome-]")
    expect(boxes).to_have_count(3)
    for i, value in enumerate(("5.1", "5.2", "5.3")):
        boxes.nth(i).fill(value)
    page.locator("#save-all").click()
    expect(page.locator("#go")).to_have_text("Stop: there is a verdict")
    page.goto(f"/studies/{study.name}/verdict")
    answer = "Confirmed: 3 fresh runs at the setting gave a mean of 5.2"
    expect(page.locator("#confirmed li").first).to_contain_text(answer)
    expect(page.locator("#chart-confirmation svg.chart:visible")).to_have_count(1)
    expect(page.get_by_role("button", name="Confirm with more fresh runs")).to_be_visible()
    expect(page.locator("#verdict-report")).to_have_attribute("href", "/studies/to%20be%20confirmed/export/report.html")
