"""Several people on one study at once, and a service that goes away and comes back: nobody loses anything."""

import re
import socket
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from harness.browser import Visitors
from harness.http_load import running_server
from levers.core.space import Space
from levers.studies.events import Told
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study

SPACE = Space.of({"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]})


def oven(storage: str, name: str) -> Study:
    return create_study(name, SPACE, tolerance=0.8, noise_sd=1.0, seed=1, storage=storage)


def logged_in(people: Visitors, storage: str, who: str, study: str) -> Page:
    """The study's page, seen by somebody with a name: the one that their token has as its note."""
    page = people.new_page()
    page.goto(f"/login?then=/studies/{study}")
    page.get_by_label("Token").fill(create_token(open_storage(storage), "write", note=who))
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#live")).to_have_text("live")
    return page


def entry(page: Page, trial: int) -> str:
    return page.get_by_label(f"Outcome of trial {trial}", exact=True).input_value()


def n_times_told(study: Study, trial: int) -> int:
    events = [stored.record().event for stored in study.storage.read(study.id, 0)]
    return sum(event.trials.tolist().count(trial) for event in events if isinstance(event, Told))


def test_two_people_enter_the_same_trial(people: Visitors, shared: str) -> None:
    study = oven(shared, "two-people")
    ann, bob = (logged_in(people, shared, who, study.name) for who in ("ann", "bob"))
    ann.get_by_label("How many").fill("3")
    ann.get_by_role("button", name="Ask for runs").click()
    for page in (ann, bob):
        expect(page.locator("#runs-body tr[data-state=open]")).to_have_count(3)
    held: list[Route] = []  # what would tell bob's page that ann was faster
    is_held = True
    bob.route("**/panels?**", lambda route: held.append(route) if is_held else route.continue_())
    ann.get_by_label("Outcome of trial 0", exact=True).fill("2,5")
    ann.get_by_role("button", name="Save the outcome of trial 0").click()
    expect(ann.locator("#said")).to_contain_text("1 outcome saved")
    bob.get_by_label("Outcome of trial 0", exact=True).fill("1.5")
    bob.get_by_role("button", name="Save the outcome of trial 0").click()
    row = bob.locator("tr[data-trial='0']")
    expect(row.locator(".problem")).to_have_text("it was told already by ann: 2.5. Yours is 1.5.")
    assert entry(bob, 0) == "1.5"
    assert study.trial(0).value == 2.5
    assert n_times_told(study, 0) == 1
    is_held = False
    for route in held:
        route.continue_()
    expect(row).to_have_attribute("data-state", "closed")
    expect(row.locator(".problem")).to_contain_text("told by ann: 2.5")
    assert entry(bob, 0) == "1.5"  # still there, for bob to decide
    bob.get_by_label("To correct it, say why").fill("ann read the wrong gauge")
    bob.get_by_role("button", name="Correct", exact=True).first.click()
    expect(bob.locator("#said")).to_contain_text("Trial 0: 2.5 is now 1.5.")
    for page in (ann, bob):
        expect(page.locator("#corrections")).to_contain_text("ann read the wrong gauge")
    assert study.trial(0).value == 1.5
    assert study.status().n_complete == 1


def test_typing_survives_what_others_do(people: Visitors, shared: str) -> None:
    study = oven(shared, "typing")
    study.ask(4)
    ann, bob = (logged_in(people, shared, who, study.name) for who in ("ann", "bob"))
    bob.get_by_label("Outcome of trial 3", exact=True).fill("7.25")
    bob.get_by_label("Outcome of trial 1", exact=True).press_sequentially("0.")
    bob.locator("#correct-details summary").click()
    bob.get_by_label("Reason, for whoever reads the log").fill("half a reason")
    bob.get_by_label("Outcome of trial 1", exact=True).focus()
    for trial in (0, 1):
        ann.get_by_label(f"Outcome of trial {trial}", exact=True).fill("3")
    ann.get_by_role("button", name="Save all").last.click()
    expect(bob.locator("#so-far")).to_have_text("2 runs so far")
    expect(bob.locator("tr[data-trial='0'] .became")).to_have_text("told by ann: 3")
    expect(bob.locator("tr[data-trial='1'] .problem")).to_contain_text("told by ann: 3. What you typed was not saved.")
    expect(bob.get_by_label("Outcome of trial 1", exact=True)).to_be_focused()
    bob.keyboard.type("5")
    assert [entry(bob, trial) for trial in (1, 3)] == ["0.5", "7.25"]
    expect(bob.get_by_label("Reason, for whoever reads the log")).to_have_value("half a reason")
    bob.get_by_role("button", name="Save the outcome of trial 3").click()
    expect(ann.locator("#so-far")).to_have_text("3 runs so far")
    assert [study.trial(trial).value for trial in range(4)] == [3.0, 3.0, None, 7.25]
    expect(bob.locator("tr[data-trial='3'] .became")).to_have_text("told by bob: 7.25")
    people.expect("dialog beforeunload")
    bob.get_by_label("Outcome of trial 2", exact=True).fill("9")
    bob.goto("/")  # the browser asks, since bob typed something that was not saved
    assert any("beforeunload" in problem for problem in people.problems)


def test_a_run_that_failed_is_asked_for_again(people: Visitors, shared: str) -> None:
    study = oven(shared, "failing")
    study.ask(2)
    page = people.new_page()
    page.goto("/studies/failing")
    row = page.locator("tr[data-trial='0']")
    row.get_by_text("failed?").click()
    row.get_by_label("Why there is no outcome").fill("power cut")
    row.get_by_role("button", name="It failed").click()
    expect(row.locator(".became")).to_contain_text("reported as failed")
    expect(page.locator("#runs-count")).to_have_text("(1)")
    assert study.status().n_failed == 1


def test_a_page_that_is_loaded_has_its_script(people: Visitors, shared: str) -> None:
    """Else a form sent at once would leave the page, and what was typed into other rows with it."""
    oven(shared, "at once").ask(2)
    page = people.new_page()
    for path, script in (("/studies/at%20once", "/runs.js"), ("/studies/new", "/new.js")):
        page.goto(path)
        loaded = "performance.getEntriesByType('navigation')[0].loadEventStart"
        scripts = "performance.getEntriesByType('resource').filter((file) => file.name.endsWith(script))"
        assert page.evaluate(f"(script) => {scripts}.map((file) => file.responseEnd <= {loaded})", script) == [True]


def test_an_update_that_is_faster_than_the_answer(people: Visitors, shared: str) -> None:
    """The page hears of its own outcome as of anybody's; it must not say that it was not saved."""
    study = oven(shared, "faster")
    study.ask(2)
    page = people.new_page()
    page.goto("/studies/faster")
    expect(page.locator("#live")).to_have_text("live")
    row, seen = page.locator("tr[data-trial='0']"), list[object]()

    def late(route: Route) -> None:
        answer = route.fetch()
        expect(page.locator("#so-far")).to_have_text("1 run so far")
        seen.extend([row.get_attribute("data-state"), row.locator(".problem").is_hidden()])
        route.fulfill(response=answer)

    page.route("**/tell", late)
    page.get_by_label("Outcome of trial 0", exact=True).fill("2.5")
    page.get_by_role("button", name="Save the outcome of trial 0").click()
    expect(row.locator(".became")).to_contain_text(": 2.5")
    assert seen == ["open", True]


def test_the_service_is_restarted_under_an_open_page(chromium: Browser, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/restarted.db"
    study = oven(storage, "restarted")
    study.ask(3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Visitors(chromium, f"http://127.0.0.1:{port}") as people:
        people.expect("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING")
        page = people.new_page()
        with running_server(storage, port=port) as server:
            page.goto("/studies/restarted")
            expect(page.locator("#live")).to_have_text("live")
            page.evaluate("window.sameDocument = true")
            page.get_by_label("Outcome of trial 0", exact=True).fill("4.5")
            assert server.stop() == 0
            expect(page.locator("#live")).to_have_text("connection lost, trying again")
            page.get_by_role("button", name="Save the outcome of trial 0").click()
            expect(page.locator("#said")).to_contain_text("The service did not answer")
            assert entry(page, 0) == "4.5"
            study.tell(1, 2.0)  # from elsewhere meanwhile
        with running_server(storage, port=port):
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator("#so-far")).to_have_text("1 run so far")
            assert entry(page, 0) == "4.5"
            page.get_by_role("button", name="Save the outcome of trial 0").click()
            expect(page.locator("#so-far")).to_have_text("2 runs so far")
            expect(page.locator("tr[data-trial='0'] .became")).to_have_text(re.compile("told by .*: 4.5"))
            assert page.evaluate("window.sameDocument")
            assert [load_study("restarted", storage).trial(t).value for t in range(3)] == [4.5, 2.0, None]
