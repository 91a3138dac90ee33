"""The pages, as a browser without scripts sees them; what scripts do is in the browser tests."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

import levers
from harness.markup import post, tidy
from levers.charts import drawings
from levers.charts.drawings import charts_of
from levers.charts.facts import Facts
from levers.charts.view import StudyView
from levers.errors import StudyError
from levers.studies.analysis.tables import trials_frame
from levers.studies.events import Told
from levers.studies.library import create_study, list_studies, load_study, open_storage
from levers.studies.sheets.runs import trial_codes
from levers.studies.space_text import parse_text
from levers.studies.storage.base import Storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.cache import ViewCache, who_told
from levers.web.demo import MOST_DEMOS, Demos
from levers.web.drafts import Question, bought, planned
from levers.web.service import Service

HOSTILE = '<img src=x onerror="alert(1)"> \'"&amp; אבג a/b %2F ' + "x" * 140
SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}


def at(name: str, rest: str = "") -> str:
    return f"/studies/{quote(name, safe='')}{rest}"


def oven(storage: Storage, name: str = "oven", **more: Any) -> Study:
    return create_study(name, SPACE, **{"tolerance": 0.8, "noise_sd": 1.0, "seed": 1, "storage": storage, **more})


def finished(storage: Storage, name: str = "done") -> Study:
    study, rng = oven(storage, name), np.random.default_rng(0)
    study.optimize(lambda run: float(2.0 * (run["heat"] == "mid") + rng.normal()))
    return study


def test_all_pages_answer_and_are_tidy(client: TestClient, storage: Storage) -> None:
    tidy(client.get("/").text)
    oven(storage).ask(3)
    finished(storage)
    hostile = create_study(
        HOSTILE, {"<b>f</b>": ["</td>", "'\""], "d": [1, 2]}, tolerance=1.0, noise_sd=1.0, storage=storage
    )
    for trial in hostile.by("<i>eve</i>").ask(4)[:2]:
        hostile.by("<i>eve</i>").tell(trial, 1.0)
    pages = ["/", "/new", "/studies/new", "/login", "/api", "/compare", f"/compare?study=oven&study={quote(HOSTILE)}"]
    for name in ("oven", "done", HOSTILE):
        parts = ("", "/panels", "/checks", "/checks?part_only=true", "/trials", "/trials/0", "/verdict", "/delete")
        pages += [at(name, part) for part in parts]
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        tidy(answer.text)
        assert answer.headers["cache-control"] == "no-store"
        assert "<img" not in answer.text
        assert "<b>f" not in answer.text
        assert "<i>eve" not in answer.text
    for page in ("/nope", at("ovne"), at("oven", "/trials/99999"), at("oven", "/runs.pdf")):
        answer = client.get(page)
        assert answer.status_code == 404, page
        tidy(answer.text)
    assert 'href="/studies/oven"' in client.get(at("ovne")).text


def test_static_files_are_kept_and_named_by_content(client: TestClient) -> None:
    page = client.get("/").text
    for address in re.findall(r'"(/static/[^"]+)"', page):
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert client.get("/static/0/main.js").headers["cache-control"] == "no-cache"
    assert client.get("/static/0/../app.py").status_code == 404


def test_a_form_without_the_browsers_own_value_changes_nothing(client: TestClient, storage: Storage) -> None:
    study = oven(storage)
    client.get("/")
    for path in ("/studies", "/plan", "/demo", "/logout", "/login", *(at("oven", f"/{verb}") for verb in
                 ("ask", "tell", "fail", "correct", "upload", "delete"))):  # fmt: skip
        for given in ({}, {"form_token": "wrong"}, {"form_token": "é"}):
            answer = client.post(path, data={"n": "1", "typed_name": "oven", **given})
            assert answer.status_code == 403, path
    cookie = client.cookies["levers_form"]
    client.cookies.clear()
    assert client.post(at("oven", "/ask"), data={"n": "1", "form_token": cookie}).status_code == 403
    assert study.state.seq == load_study("oven", storage).state.seq == 3
    assert list_studies(storage) == ["oven"]


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(client: TestClient) -> None:
    cookie = client.get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert "secure" in client.get("https://testserver/login", headers={"cookie": ""}).headers["set-cookie"].lower()


def test_roles(storage: Storage) -> None:
    study = oven(storage)
    oven(storage, "other")
    tokens = {role: create_token(storage, role, note=f"the {role}") for role in ("read", "write", "admin")}
    tokens["one"] = create_token(storage, "write", study="oven", note="one only")
    clients = {}
    for role, token in tokens.items():
        clients[role] = client = TestClient(make_app(Service(storage, needs_token=True)))
        refused = client.get(at("oven"))
        assert refused.status_code == 401
        assert 'data-page="login"' in refused.text
        tidy(refused.text)
        assert post(client, "/login", {"token": "levers_x_y", "then": "/"}).status_code == 401
        inside = post(client, "/login", {"token": token, "then": at("oven")})
        assert inside.status_code == 200
        assert inside.url.path == at("oven")
        assert f"the {role}" in inside.text or role == "one"
    shown = {role: client.get(at("oven")).text for role, client in clients.items()}
    assert 'id="ask"' not in shown["read"]
    assert 'id="ask"' in shown["write"]
    assert "delete-link" not in shown["write"]
    assert "delete-link" in shown["admin"]
    assert 'id="new-study"' not in clients["write"].get("/").text
    assert clients["write"].get("/new").status_code == 403
    assert clients["write"].get(at("oven", "/delete")).status_code == 403
    assert clients["one"].get(at("other")).status_code == 403
    assert clients["one"].get("/compare?study=other").text.count("other</bdi>") == 1
    assert 'data-study="other"' not in clients["one"].get("/").text
    for verb in ("ask", "tell", "fail", "correct", "upload"):
        assert post(clients["read"], at("oven", f"/{verb}"), {"n": "1"}).status_code == 403
    assert post(clients["write"], "/demo").status_code == 403
    assert post(clients["write"], "/studies", {"name": "x"}).status_code == 403
    assert post(clients["write"], at("oven", "/delete"), {"typed_name": "oven"}).status_code == 403
    assert study.status().n_running == 0
    assert post(clients["write"], at("oven", "/ask"), {"n": "2"}).status_code == 200
    assert {trial.worker for trial in study.running()} == {f"the write (token {tokens['write'].split('_')[1]})"}
    assert post(clients["read"], "/logout").url.path == "/login"
    assert clients["read"].get("/").status_code == 401
    after = post(TestClient(make_app(Service(storage, needs_token=True))), "/login",
                 {"token": tokens["read"], "then": "https://evil.example/"}, follow_redirects=False)  # fmt: skip
    assert after.headers["location"] == "/"


def test_a_study_from_the_form_to_the_verdict_without_scripts(client: TestClient, storage: Storage) -> None:
    wrong = {"name": "new", "factor": ["heat", "speed", ""], "levels": ["low, high", "1; 2,5", ""], "tolerance": "x"}
    answer = post(client, "/studies", wrong)
    assert answer.status_code == 422
    tidy(answer.text)
    assert "the tolerance must be a number" in answer.text
    assert all(f'value="{text}"' in answer.text for text in ("new", "heat", "low, high", "1; 2,5", "x"))
    more = post(client, "/studies", {**wrong, "more_rows": "1"}).text
    assert more.count('name="factor"') > answer.text.count('name="factor"')
    good = {**wrong, "tolerance": "1,5", "noise_sd": "1", "goal": "minimize", "table": "dose: 1, 2", "seed": "7",
            "forbidden": "heat=high, speed=2.5", "block_size": "5", "max_parents": "2"}  # fmt: skip
    answer = post(client, "/studies", good)
    assert answer.status_code == 200
    assert "The study has begun" in answer.text
    study = load_study("new", storage)
    assert study.spec.goal == "minimize"
    assert [f.levels for f in study.space.factors] == [("low", "high"), (1.0, 2.5), (1, 2)]
    assert (study.spec.tolerance, study.spec.seed, study.spec.block_size) == (1.5, 7, 5)
    assert dict(study.spec.options) == {"max_parents": 2}
    assert len(study.spec.forbidden) == 1
    assert 'data-page="study"' in client.get("/studies/new").text  # a study of that name has the address
    assert 'data-page="new"' in client.get("/new").text
    again = post(client, "/studies", good)
    assert again.status_code == 409
    assert 'id="problem-name"' in again.text
    rng = np.random.default_rng(1)
    for _ in range(200):
        if study.is_finished:
            break
        assert post(client, at("new", "/ask"), {"n": "9"}).status_code == 200
        typed = {f"outcome-{t.number}": f"{rng.normal():.2f}".replace(".", ",") for t in study.running()}
        assert post(client, at("new", "/tell"), {**typed, "save": "all"}).status_code == 200
    page = client.get(at("new", "/verdict")).text
    assert "Set the levers like this" in page
    assert all(part in page for part in ('id="guarantee"', 'id="provisos"', 'id="levels"', 'id="stages"', 'id="doubt"'))
    assert client.get(at("new", "/export/verdict.json")).json()
    assert "Stop: there is a verdict" in client.get(at("new")).text


def test_create_from_a_file_or_pasted_text(client: TestClient, storage: Storage) -> None:
    fields = {"tolerance": "1", "failure_prob": "0.1"}
    toml = b'[factors]\nheat = ["low", "high"]\nspeed = [1, 2]\n[[forbidden]]\nheat = "low"\nspeed = 2\n'
    assert post(client, "/studies", {**fields, "name": "a"}, files={"file": ("a.toml", toml)}).status_code == 200
    assert len(load_study("a", storage).spec.forbidden) == 1
    broken = post(client, "/studies", {**fields, "name": "b"}, files={"file": ("b.json", b'{"factors": 3}')})
    assert broken.status_code == 422
    assert "&#34;factors&#34;: 3" in broken.text  # what the file said is kept, to be mended
    assert "has no table of factors" in broken.text
    assert post(client, "/studies", {**fields, "name": "c", "table": "heat\tlow\thigh\nspeed\t1\t2"}).status_code == 200
    assert load_study("c", storage).space.names == ("heat", "speed")
    assert load_study("c", storage).spec.noise_sd is None
    assert post(client, "/studies", {**fields, "name": "d", "table": "lonely"}).status_code == 422
    assert list_studies(storage) == ["a", "c"]


def test_the_plan_is_that_of_the_library(client: TestClient) -> None:
    fields = {
        "factor": ["a", "b", "c"],
        "levels": ["1,2,3,4", "x, y, z", "p, q"],
        "tolerance": "0.5",
        "noise_sd": "1.5",
    }
    text = post(client, "/plan", fields).text
    tidy(text)
    expected = levers.plan([4, 3, 2], tolerance=0.5, noise_sd=1.5)
    shown = dict(re.findall(r'id="plan-([a-z-]+)">([0-9,]+)<', text))
    assert shown["worst"] == f"{expected.worst_case_runs:,}"
    assert shown["likely"] == f"{expected.runs_if_few_matter:,}"
    assert shown["modl"] == f"{expected.modl_runs:,}"
    assert shown["one-at-a-time"] == f"{expected.one_at_a_time_runs:,}"
    assert shown["factorial"] == "24"
    few = levers.plan([4, 3, 2], tolerance=0.5, noise_sd=1.5, max_parents=1)
    assert (
        f"{few.runs_if_few_matter:,} to {few.worst_case_runs:,}"
        in post(client, "/plan", {**fields, "max_parents": "1"}).text
    )
    double = levers.plan([4, 3, 2], tolerance=1.0, noise_sd=1.5)
    assert f"{double.runs_if_few_matter:,} to {double.worst_case_runs:,}" in text
    unknown = post(client, "/plan", {**fields, "noise_sd": ""}).text
    assert 'id="plan-guesses"' in unknown
    assert "the tolerance must be a number" in post(client, "/plan", {**fields, "tolerance": "?"}).text
    assert "appears here" in post(client, "/plan", {"tolerance": "1"}).text
    huge = {"table": "\n".join(f"f{k}: 1, 2, 3, 4" for k in range(20)), "tolerance": "0.5", "noise_sd": "1"}
    assert 'id="plan-buys-waiting"' in post(client, "/plan?with_buys=false", huge).text
    assert "1,099,511,627,776" in post(client, "/plan", huge).text


def test_known_noise_saves_runs() -> None:
    found = bought(Question((4,) * 6, 0.5, None, 0.1, 1.0))
    noise = next(b for b in found if "noise is known" in b.what)
    assert noise.given
    assert noise.with_it[0] < noise.without[0]
    guessed = planned(Question((4,) * 6, 0.5, None, 0.1, None))
    assert [g.worst_case_runs for g in guessed.guesses] == sorted(g.worst_case_runs for g in guessed.guesses)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("heat: low, high", [("heat", ["low", "high"])]),
        ("heat;0,5;1,5", [("heat", [0.5, 1.5])]),
        ("heat=1,2\n\n# a note\nspeed = nan, inf", [("heat", [1, 2]), ("speed", ["nan", "inf"])]),
        ('"heat";"a;b";c', [("heat", ["a;b", "c"])]),
        ('{"factors": {"heat": [1, "1"]}}', [("heat", [1, "1"])]),
    ],
)
def test_levers_in_text(text: str, expected: list[tuple[str, list[Any]]]) -> None:
    assert parse_text(text)[0] == expected


def test_two_people_on_one_trial(client: TestClient, storage: Storage) -> None:
    study = oven(storage, who="ann")
    first, second, third = study.ask(3)
    study.by("ann").tell(first, 3.2)
    quiet = {"x-levers-quiet": "1"}
    typed = {f"outcome-{first.number}": "4,1", f"outcome-{second.number}": "5", f"outcome-{third.number}": "x"}
    answer = post(client, at("oven", "/tell"), {**typed, "save": "all"}, headers=quiet).json()
    assert answer["saved"] == [second.number]
    told = next(p for p in answer["problems"] if p["trial"] == first.number)
    assert told["problem"] == "it was told already by ann: 3.2. Yours is 4.1."
    assert told["may_correct"]
    page = post(client, at("oven", "/tell"), {**typed, "save": "all"})
    assert page.status_code == 409
    tidy(page.text)
    assert "it was told already by ann: 3.2" in page.text
    assert 'value="4,1"' in page.text
    assert 'value="x"' in page.text
    assert study.trial(first.number).value == 3.2
    fixed = post(
        client, at("oven", "/correct"), {**typed, "correct": str(first.number), f"reason-{first.number}": "mine"}
    )
    assert "3.2 is now 4.1" in fixed.text
    assert "No decision changes" in fixed.text
    assert study.trial(first.number).value == 4.1
    panel = client.get(at("oven", f"/panels?open={first.number},{third.number},999")).text
    tidy(panel)
    assert "told by ann: 4.1" in panel
    assert f'name="outcome-{third.number}"' in panel


def test_fail_upload_correct_delete(client: TestClient, storage: Storage) -> None:
    study = oven(storage)
    post(client, at("oven", "/ask"), {"n": "6"})
    failed = post(client, at("oven", "/fail"), {"fail": "0", "reason-0": "lost"})
    assert "Trial 0 failed" in failed.text
    sheet = client.get(at("oven", "/runs.csv"))
    lines = sheet.text.splitlines()
    assert sheet.headers["content-disposition"].startswith('attachment; filename="oven runs.csv"')
    assert len(lines) == 6
    seq = study.state.seq
    wrong = "\n".join([lines[0], lines[1] + "1.5", lines[2] + "x", "999,1,,low,1,3"])
    answer = post(client, at("oven", "/upload"), files={"sheet": ("mine.csv", wrong)})
    assert answer.status_code == 422
    tidy(answer.text)
    assert (
        "<p>2 rows are wrong; nothing was stored.</p><ul><li>row 3: outcome &#39;x&#39; is not a number" in answer.text
    )
    assert "<li>row 4: there is no trial 999" in answer.text
    assert study.state.seq == seq
    assert post(client, at("oven", "/upload"), files={"sheet": ("a.csv", b"\0\1")}).status_code == 422
    assert post(client, at("oven", "/upload")).status_code == 422
    good = "\n".join([lines[0], *(line + "1,5".replace(",", ".") for line in lines[1:4]), *lines[4:]])
    answer = post(client, at("oven", "/upload"), files={"sheet": ("mine.csv", good)})
    assert "3 new outcomes, 0 known before, 2 rows not run yet" in answer.text
    book = client.get(at("oven", "/runs.xlsx"))
    assert post(client, at("oven", "/upload"), files={"sheet": ("m.xlsx", book.content)}).status_code == 200
    no_reason = post(client, at("oven", "/correct"), {"trial": "1", "value": "9", "reason": " "})
    assert no_reason.status_code == 422
    assert 'value="9"' in no_reason.text
    assert "1.5 is now 9" in post(client, at("oven", "/correct"), {"trial": "1", "value": "9", "reason": "typo"}).text
    assert "typo" in client.get(at("oven")).text
    assert post(client, at("oven", "/delete"), {"typed_name": "oven "}, follow_redirects=False).status_code == 303
    assert list_studies(storage) == []
    oven(storage, "other")
    assert post(client, at("other", "/delete"), {"typed_name": "oven"}).status_code == 422
    assert list_studies(storage) == ["other"]
    assert client.get(at("oven")).status_code == 404


@pytest.mark.parametrize("n", ["0", "x", "", "99999999", "-1"])
def test_a_number_of_runs_that_makes_no_sense(client: TestClient, storage: Storage, n: str) -> None:
    study = oven(storage)
    answer = post(client, at("oven", "/ask"), {"n": n})
    assert answer.status_code == 422
    assert f'value="{n or 8}"' in answer.text
    assert study.status().n_running == 0


def test_hostile_names_stay_text(client: TestClient, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [HOSTILE, "a/b", "100 %", "новое", "?x=1#y", "a;b", '"', "new"]
    for name in names:
        oven(storage, name)
        answer = post(client, at(name, "/ask"), {"n": "1"})
        assert answer.status_code == 200
        tidy(answer.text)
        assert client.get(at(name, "/trials/0")).status_code == 200
    listed = client.get("/").text
    tidy(listed)
    for link in re.findall(r'href="(/studies/[^"]+)"', listed):
        assert client.get(link).status_code == 200
    assert client.get(f"/?q={quote('<img')}").text.count("data-study=") == 1
    monkeypatch.setattr("levers.core.space.half_character", lambda text: None)  # as in studies of before it was refused
    many = create_study(
        "many", {"m": list(range(1000)), "n\ud800": ["a", "b\0"]}, tolerance=1.0, noise_sd=1.0, storage=storage
    )
    many.ask(2)
    answer = client.get(at("many"))
    assert answer.status_code == 200
    tidy(answer.text)
    assert len(answer.content) < 3_000_000


def test_a_name_with_a_semicolon_is_one_line_of_the_guarantee(client: TestClient, storage: Storage) -> None:
    space: dict[str, list[levers.Level]] = {
        "heat; zone 1": ["low", "high"],
        "heat; zone 2": ["low", "high"],
        "speed": [1, 2],
    }
    merged = [["heat; zone 1", "heat; zone 2"]]
    study = create_study("split", space, tolerance=1.0, noise_sd=1.0, seed=1, merged=merged, storage=storage)
    rng = np.random.default_rng(0)
    study.optimize(lambda run: float(rng.normal()))
    page = client.get(at("split", "/verdict")).text
    lines = re.findall("<li>(.*?)</li>", re.search('<ul id="provisos">(.*?)</ul>', page)[1])  # type: ignore[index]
    found = study.verdict()
    assert len(lines) == 1 + len(found.provisos)
    assert sum("heat; zone 1" in line for line in lines) == 1
    assert not any(line.startswith("zone") for line in lines)


def test_blocks_count_from_one_wherever_they_are_shown(client: TestClient, storage: Storage) -> None:
    study = oven(storage)
    study.tell_many((trial, 1.0) for trial in study.ask(3))
    page = client.get(at("oven")).text
    assert "round 1: mean 1 of 3 runs" in page
    assert "block 0" not in page
    assert "<dt>block</dt><dd>1</dd>" in client.get(at("oven", "/trials/0")).text


def test_the_page_of_trials(client: TestClient, storage: Storage) -> None:
    study = oven(storage, tolerance=0.4)
    rng = np.random.default_rng(3)
    study.optimize(lambda run: float(rng.normal()))
    page = client.get(at("oven", "/trials?state=COMPLETE&sort=outcome&order=down&size=50")).text
    tidy(page)
    frame = (
        trials_frame(study.state)
        .filter(pl.col("state") == "COMPLETE")
        .sort(["outcome", "trial"], descending=[True, False])
    )
    assert [int(t) for t in re.findall(r'<tr data-trial="(\d+)"', page)] == frame["trial"].to_list()[:50]
    assert f'data-found="{frame.height}"' in page
    link = re.search(r'rel="next" href="([^"]+)"', page)
    assert link is not None
    second = client.get(at("oven", "/trials") + link[1].replace("&amp;", "&"))
    assert [int(t) for t in re.findall(r'<tr data-trial="(\d+)"', second.text)] == frame["trial"].to_list()[50:100]
    for wrong in ("state=x", "sort=x", "sort=factor:x", "factor=x&level=1", "factor=heat&level=x"):
        assert client.get(at("oven", f"/trials?{wrong}")).status_code == 422
    assert client.get(at("oven", "/trials?at=999999")).status_code == 200


def test_twenty_thousand_trials(client: TestClient, storage: Storage) -> None:
    space = {f"lever {k}": ["a", "b", "c", "d"] for k in range(10)}
    study = create_study("big", space, tolerance=0.04, noise_sd=1.0, seed=1, storage=storage)
    rng, effects, n = np.random.default_rng(1), np.zeros((10, 4)), 0
    effects[:6] = 0.6 * np.random.default_rng(2).normal(size=(6, 4))
    while n < 20_000 and not study.is_finished:
        due = study.ask_numbers(min(5_000, 20_000 - n))
        codes = trial_codes(study.state, due)
        n += study.tell_arrays(due, effects[np.arange(10), codes].sum(axis=1) + rng.normal(size=len(due)))
    assert n == 20_000
    client.get("/")
    shown = client.get(at("big")).text
    assert re.search(r'id="so-far">([^<]+)<', shown)[1].startswith("20,000 runs")  # type: ignore[index]
    page = client.get(at("big", "/trials?state=COMPLETE&factor=lever+3&level=b&sort=outcome&order=down")).text
    frame = trials_frame(study.state).filter((pl.col("lever 3") == "b") & (pl.col("state") == "COMPLETE"))
    top = frame.sort(["outcome", "trial"], descending=[True, False])["trial"].to_list()[:50]
    assert [int(t) for t in re.findall(r'<tr data-trial="(\d+)"', page)] == top
    assert f'data-found="{frame.height}"' in page


def test_a_study_is_looked_at_once_for_each_place_in_its_log(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    study, cache, drawn = oven(storage), ViewCache(most=2), list[str]()
    kind = drawings.CHARTS["effects"]

    def counted(view: StudyView) -> Facts[Any]:
        drawn.append(view.name)
        return kind.facts(view)

    monkeypatch.setitem(drawings.CHARTS, "effects", replace(kind, facts=counted))
    threads = [threading.Thread(target=lambda: charts_of(cache.view(study), ["effects"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n_before = len(drawn)
    charts_of(cache.view(study), ["effects"])
    assert len(drawn) == n_before
    study.ask()
    charts_of(cache.view(study), ["effects"])
    assert len(drawn) == n_before + 1


def test_the_best_setting_shows_in_the_first_round_once_enough_is_told(client: TestClient, storage: Storage) -> None:
    study, rng = oven(storage), np.random.default_rng(0)
    first = study.ask(100)
    assert "once enough outcomes tell the levels apart" in client.get(at("oven")).text
    study.tell_many((trial, float(rng.normal())) for trial in first[:-1])
    assert study.status().to_go.now == 1  # the round is not over
    page = client.get(at("oven")).text
    assert "Best setting now" in page
    assert "at the latest after the first round" not in page


def test_a_drawing_that_leaves_something_out_points_to_its_table(client: TestClient, storage: Storage) -> None:
    study = create_study("seven", {f"lever {k}": [1, 2] for k in range(7)}, budget=20, seed=1, storage=storage)
    rng = np.random.default_rng(0)
    study.optimize(lambda run: float(rng.normal()))
    assert "of 21 pairs are drawn. The table has all." in client.get(at("seven", "/checks")).text


@pytest.fixture
def renamed() -> Iterator[None]:
    """A class of events with another name, whose tag in the log stays."""
    name, Told.__name__ = Told.__name__, "Renamed"
    yield
    Told.__name__ = name


def test_who_told_is_found_far_back_and_by_the_tag_of_the_event(storage: Storage, renamed: None) -> None:
    study = oven(storage, tolerance=0.2)
    first = study.ask(1)[0]
    study.by("ann").tell(first, 1.0)
    for _ in range(300):
        for trial in study.ask(1):
            study.by("bob").tell(trial, 2.0)
    assert study.state.seq > 600
    assert who_told(study, study.state, [first.number, 5, 10**6]) == {first.number: "ann", 5: "bob"}


def test_the_stream_says_when_a_study_changes(server: str, database: str) -> None:
    study = load_study("oven", oven(open_storage(database)).storage)
    with httpx.Client(base_url=server, timeout=60) as web:
        assert web.get("/studies/nope/stream").status_code == 404
        with web.stream("GET", f"/studies/oven/stream?since={study.state.seq}") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == "retry: 2000"
            study.ask(1)
            assert next(line for line in lines if line.startswith("event:")) == "event: changed"
            assert next(lines) == f"id: {study.state.seq}"


def test_the_demo_runs_and_stops(service: Service, storage: Storage) -> None:
    demos = Demos(service, pause=0.02)
    names = [demos.start("ann") for _ in range(MOST_DEMOS)]
    assert len(set(names)) == MOST_DEMOS
    with pytest.raises(StudyError, match="under way"):
        demos.start("ann")
    end = time.monotonic() + 30
    while time.monotonic() < end and load_study(names[0], storage).status().n_complete < 24:
        time.sleep(0.05)
    assert load_study(names[0], storage).status().n_complete >= 24
    demos.stop(names[1])
    assert demos.n_running < MOST_DEMOS
    service.stopping.set()
    assert demos.join(10.0)
    seq = load_study(names[0], storage).state.seq
    time.sleep(0.2)
    assert load_study(names[0], storage).state.seq == seq


def test_start_a_demo_from_the_page(client: TestClient, storage: Storage) -> None:
    assert "start-demo" in client.get("/").text
    answer = post(client, "/demo")
    assert answer.url.path == at("demo: factory line").replace("%3A", ":") or "factory" in str(answer.url)
    assert "simulated factory line" in answer.text
    name = list_studies(storage)[0]
    assert post(client, at(name, "/delete"), {"typed_name": name}).status_code == 200
    assert list_studies(storage) == []


def test_list_sorts_and_finds(client: TestClient, storage: Storage) -> None:
    for name, n in (("b", 3), ("a", 5), ("c", 0)):
        study = oven(storage, name)
        if n:
            study.tell_many((trial, 1.0) for trial in study.ask(n))
    order: Callable[[str], list[str]] = lambda query: re.findall(r'data-study="(\w)"', client.get(f"/?{query}").text)  # noqa: E731
    assert order("sort=name") == ["a", "b", "c"]
    assert order("sort=name&order=down") == ["c", "b", "a"]
    assert order("sort=runs") == ["a", "b", "c"]
    assert order("sort=runs&order=up") == ["c", "b", "a"]
    assert order("q=B") == ["b"]
    assert order("sort=updated") == ["c", "a", "b"]
    assert sorted(order("sort=state")) == sorted(order("sort=to_go")) == ["a", "b", "c"]


def test_wrong_input_to_a_script_is_answered_in_words(client: TestClient, storage: Storage) -> None:
    oven(storage)
    quiet = {"x-levers-quiet": "1"}
    answer = post(client, at("oven", "/correct"), {"trial": "1", "value": "2", "reason": "x"}, headers=quiet)
    assert answer.status_code == 409
    assert "only an outcome that was told" in answer.json()["message"]
    gone = post(client, at("gone", "/ask"), {"n": "1"}, headers=quiet)
    assert gone.status_code == 404
    assert "sqlite" not in gone.text
    assert "sqlite" not in client.get(at("gone")).text
