"""Who may do what, as a browser sees it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.browser import Visitors
from harness.http_load import running_server
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.storage.tokens import create_token, revoke_token

STUDIES = ("oven", "press")
REFUSED = ("status of 401", "status of 403")
WRITING = "#ask, #upload, #correct, #runs-form button, #runs-body input, #delete-link, #new-study, #start-demo"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> str:
    storage = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/levers.db"
    for name in STUDIES:
        study = create_study(name, {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=storage)
        study.tell(study.ask(3)[0], 1.0)
    create_token(open_storage(storage), "admin")
    return storage


@pytest.fixture(scope="module")
def guarded_address(guarded: str) -> Iterator[str]:
    with running_server(guarded, "--require-token") as server:
        yield server.address


@pytest.fixture
def visitors(chromium: Browser, guarded_address: str) -> Iterator[Visitors]:
    with Visitors(chromium, guarded_address) as found:
        found.expect(*REFUSED)  # browsers note every refused page in the console
        yield found


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def token_of(storage: str, role: str, study: str | None = None) -> str:
    return create_token(open_storage(storage), role, study, note=f"the {role} token")


def test_without_a_token_every_page_is_the_login(visitors: Visitors) -> None:
    page = visitors.new_page()
    parts = ("", "/trials", "/trials/0", "/verdict", "/checks", "/delete", "/runs.csv", "/export/trials.csv")
    for path in ("/", "/new", "/compare", "/api", *(f"/studies/oven{part}" for part in parts)):
        page.goto(path)
        expect(page.locator("body")).to_have_attribute("data-page", "login")
        assert "heat" not in page.locator("main").inner_text()
    page.goto("/studies/oven/trials?state=COMPLETE")
    log_in(page, "levers_000000000000_wrong")
    expect(page.locator("#problem")).to_contain_text("wrong or was revoked")


def test_a_token_to_read_shows_everything_and_changes_nothing(visitors: Visitors, guarded: str) -> None:
    page = visitors.new_page()
    page.goto("/studies/oven/trials?state=COMPLETE")
    log_in(page, token_of(guarded, "read"))
    expect(page.locator("#trials tbody tr")).to_have_count(1)  # on to where they came from
    expect(page.locator("#who")).to_contain_text("the read token")
    for path in ("/", "/studies/oven", "/studies/oven/trials/0", "/studies/oven/verdict", "/compare?study=press"):
        page.goto(path)
        expect(page.locator("#who")).to_have_attribute("data-role", "read")
        expect(page.locator(WRITING)).to_have_count(0)
    page.goto("/studies/oven")
    before = load_study("oven", guarded).state.seq
    field = page.locator("input[name=form_token]").first.input_value()
    for path in ("/studies/oven/ask", "/studies/oven/tell", "/studies", "/demo"):
        forged = page.request.post(path, form={"form_token": field, "n": "1", "outcome-1": "5", "name": "x"})
        assert forged.status == 403, path
    assert load_study("oven", guarded).state.seq == before
    # a form that another site's page would send, without the value that this service's own pages have
    assert page.request.post("/studies/oven/ask", form={"n": "1"}).status == 403
    page.locator("#logout").click()
    expect(page.locator("body")).to_have_attribute("data-page", "login")
    page.goto("/studies/oven")
    expect(page.locator("body")).to_have_attribute("data-page", "login")


def test_a_token_for_one_study_opens_no_other(visitors: Visitors, guarded: str) -> None:
    page = visitors.new_page()
    page.goto("/")
    log_in(page, token_of(guarded, "write", "oven"))
    expect(page.locator("#studies tbody tr")).to_have_count(1)
    page.get_by_role("link", name="oven").click()
    page.get_by_label("How many").fill("1")
    page.get_by_role("button", name="Ask for runs").click()
    expect(page.locator("#said")).to_contain_text("1 run is out")
    expect(page.locator("#delete-link")).to_have_count(0)
    for path in ("/studies/press", "/studies/press/trials", "/studies/press/verdict", "/studies/new"):
        page.goto(path)
        expect(page.locator("#error")).to_have_attribute("data-status", "403")
    page.goto("/compare?study=press")
    expect(page.locator("#missing")).to_contain_text("press")
    expect(page.locator("#compared")).to_have_count(0)


def test_a_revoked_token_is_out_at_the_next_click(visitors: Visitors, guarded: str) -> None:
    page, token = visitors.new_page(), token_of(guarded, "write")
    page.goto("/studies/oven")
    log_in(page, token)
    expect(page.locator("#live")).to_have_text("live")
    n_out = load_study("oven", guarded).status().n_running
    revoke_token(open_storage(guarded), token.split("_")[1])
    page.get_by_role("button", name="Ask for runs").click()
    expect(page.locator("body")).to_have_attribute("data-page", "login")
    expect(page.locator("#problem")).to_contain_text("session has ended")
    assert load_study("oven", guarded).status().n_running == n_out
    page.goto("/")
    expect(page.locator("body")).to_have_attribute("data-page", "login")
    assert not [cookie for cookie in page.context.cookies() if "session" in str(cookie["name"])]


def test_nobody_reads_the_token_in_the_page(visitors: Visitors, guarded: str) -> None:
    page, token = visitors.new_page(), token_of(guarded, "admin")
    page.goto("/")
    log_in(page, token)
    expect(page.locator("#new-study")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert token not in page.content()
    assert token not in page.url
    assert all(token not in str(cookie["value"]) for cookie in page.context.cookies())
    [cookie] = [cookie for cookie in page.context.cookies() if cookie["name"] == "levers_session"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
