"""A study with 20,000 outcomes opens like any other. One with 100,000, and how fast: benchmarks/first_view.py."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from harness.browser import Visitors
from harness.first_view import CHARTS, make_large_study
from harness.http_load import running_server

N_TOLD = 20_000


def test_the_first_view_of_a_large_study(chromium: Browser, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/large.db"
    make_large_study(storage, n_told=N_TOLD)
    with running_server(storage) as server, Visitors(chromium, server.address) as people:
        page = people.new_page()
        page.goto("/")
        page.get_by_role("link", name="large").click()
        expect(page.locator("#so-far")).to_have_text(f"{N_TOLD:,} runs so far")
        for chart in CHARTS:
            expect(page.locator(f"#chart-{chart} svg.chart:visible")).to_have_count(1)
        expect(page.locator("#best dd")).to_have_count(30)
        page.get_by_label("This study").get_by_role("link", name="Trials").click()
        expect(page.locator("#found")).to_have_attribute("data-found", str(N_TOLD))
        page.get_by_role("link", name="Last").click()
        expect(page.locator(f"#trials tr[data-trial='{N_TOLD - 1}']")).to_be_visible()
