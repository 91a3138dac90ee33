"""A new experimenter: seven levers, a noise that nobody knows, sheets of eight, lots that change, a typo, an end."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from harness.browser import Visitors
from levers.studies.analysis.views import EffectRow
from levers.studies.library import load_study

LEVERS = {
    "mould": "A, B",
    "heat": "180, 190, 200",
    "speed": "1, 2, 3, 4",
    "pressure": "low, mid, high",
    "additive": "none, X, Y",
    "cooling": "10, 20, 30",
    "drying": "off, on",
}
FORBIDDEN = "heat=200, speed=4\npressure=high, additive=Y"
DAYS, PER_DAY, TYPO_DAY = 15, 8, 5


def mean(row: dict[str, str]) -> float:
    """What a setting yields in the long run."""
    good = {"190": 2.5, "200": 1.0}.get(row["heat"], 0.0) + 3.0 * (row["additive"] == "X")
    return 70.0 + good + 2.0 * (row["speed"] == "3") + 0.5 * (row["mould"] == "B")


def phone_fits(page: Page) -> bool:
    """Whether nothing stands out on the right of a narrow screen."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"))


def begin(page: Page, name: str) -> None:
    page.goto("/new")
    page.get_by_label("Name of the study").fill(name)
    for _ in range(len(LEVERS) - page.get_by_label("Lever", exact=True).count()):
        page.get_by_role("button", name="Add a lever").click()
    for row, (lever, levels) in enumerate(LEVERS.items()):
        page.get_by_label("Lever", exact=True).nth(row).fill(lever)
        page.get_by_label("Levels, with commas between them").nth(row).fill(levels)
    page.locator("#tied summary").click()
    page.locator("#forbidden").fill(FORBIDDEN)
    page.locator("#pick-tolerance").check()
    page.locator("#tolerance").fill("0.5")
    page.locator("#block_size").fill(str(PER_DAY))
    page.get_by_text("More", exact=True).click()
    page.locator("#seed").fill("7")
    page.get_by_role("button", name="Begin the study").last.click()
    expect(page.locator("#said")).to_contain_text("The study has begun")


def make_runs(sheet: Path, day: int, rng: np.random.Generator, typo: bool) -> list[dict[str, str]]:
    """A day's work: outcomes on a sheet, of a lot that changes every third day; one comma forgotten if `typo`."""
    with sheet.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    lot = float(np.random.default_rng([5, day // 3]).normal(0, 1.5))
    for i, row in enumerate(rows):
        value = mean(row) + lot + float(rng.normal())
        row["outcome"] = f"{value * 100:.0f}" if typo and i == 3 else f"{value:.2f}"
    write(sheet, rows)
    return rows


def write(sheet: Path, rows: list[dict[str, str]]) -> None:
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def work(pages: Sequence[Page], folder: Path) -> list[int]:
    """Make the runs of all days, on one page after the other. The typo is asked about, and mended on the sheet; returns
    how many runs a day had."""
    rng, lengths = np.random.default_rng(1), []
    for day in range(DAYS):
        page = pages[day % len(pages)]
        page.reload()
        page.get_by_role("button", name="Ask for runs").click()
        with page.expect_download() as found:
            page.locator("#sheet-csv").click()
        sheet = folder / f"day{day}.csv"
        found.value.save_as(sheet)
        rows = make_runs(sheet, day, rng, typo=day == TYPO_DAY)
        lengths.append(len(rows))
        upload(page, sheet)
        if day == TYPO_DAY:
            expect(page.locator("#said")).to_contain_text("Nothing of the sheet was stored")
            expect(page.locator("#said")).to_contain_text(
                f"trial {rows[3]['trial']}: {rows[3]['outcome']}, expected about 7"
            )
            rows[3]["outcome"] = f"{float(rows[3]['outcome']) / 100:.2f}"
            write(sheet, rows)
            upload(page, sheet)
        expect(page.locator("#so-far")).to_have_text(f"{sum(lengths)} runs so far")
    return lengths


def upload(page: Page, sheet: Path) -> None:
    page.get_by_label("Filled-in sheet").set_input_files(sheet)
    page.get_by_role("button", name="Upload").click()


def test_from_the_first_sheet_to_an_end_of_ones_own_choosing(people: Visitors, shared: str, tmp_path: Path) -> None:
    """Begun and ended on a phone, and worked at both there and at a desk."""
    name = "moulding"
    phone = people.new_page(accept_downloads=True, viewport={"width": 390, "height": 844})
    desk = people.new_page(accept_downloads=True)
    begin(phone, name)
    desk.goto(phone.url)
    lengths = work((desk, phone), tmp_path)
    assert lengths == [PER_DAY] * DAYS  # every day is full
    assert phone_fits(phone)
    phone.reload()
    phone.locator("#to-finish").click()
    phone.get_by_label("Reason").fill("the season is over")
    phone.get_by_role("button", name="Finish now").click()
    desk.goto(phone.url)
    for page in (desk, phone):
        expect(page.locator("#guarantee")).to_contain_text("With probability at least 90 %")
    study = load_study(name, shared)
    verdict, best = study.verdict(), study.best()
    assert best is not None
    assert study.status().state == "finished"
    assert verdict.n_runs == DAYS * PER_DAY
    assert not verdict.doubts
    assert {"stopped early", "tied", "allowed"} <= {remark.kind for remark in verdict.provisos}
    # the lots cost little: the setting is as good as the best one allowed, up to the weakest lever
    assert mean({lever: str(level) for lever, level in best.params.items()}) >= 77.0
    for page in (desk, phone):
        expect(page.locator("#verdict-setting dd")).to_have_text([str(level) for level in best.params.values()])
        expect(page.locator("#provisos")).to_contain_text("stopped before its end")
        expect(page.locator("#provisos")).to_contain_text("120 runs were checked")
    agree(study.effects())
    assert phone_fits(phone)


def agree(rows: list[EffectRow]) -> None:
    """What is chosen loses nothing, nothing else is shown to be better, and intervals hold their estimates."""
    for row in rows:
        if row.loss is None:
            continue
        assert row.loss == 0.0 if row.standing == "chosen" else row.loss >= 0.0
        for low, high in ((row.usual_low, row.usual_high), (row.low, row.high)):
            assert low is None or high is None or low <= row.loss <= high
