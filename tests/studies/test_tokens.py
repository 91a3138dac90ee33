"""Tokens open what they should, and nothing else; a key makes a request happen once."""

import threading
from pathlib import Path

import pytest

import levers
from levers.errors import InvalidSettingError, NoSuchStudyError, RepeatedKeyError, TokenError, TrialError
from levers.studies.library import open_storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.storage.tokens import active_tokens, create_token, find_token, revoke_token
from levers.studies.study import Study


def new_study(storage: str | MemoryStorage | None = None) -> Study:
    return levers.create_study("oven", {"heat": [1, 2]}, tolerance=0.5, noise_sd=1.0, seed=3, storage=storage)


def test_a_token_is_found_by_its_text_alone_and_its_secret_is_not_kept() -> None:
    storage = MemoryStorage()
    text = create_token(storage, "write", note="bench 2")
    found = find_token(storage, text)
    assert found is not None
    assert (found.role, found.study, found.note) == ("write", None, "bench 2")
    secret = text.split("_", 2)[2]
    assert len(secret) >= 43
    assert all(secret not in str(value) for value in storage.tokens())
    assert create_token(storage, "write") != text


@pytest.mark.parametrize(
    "spoil", [str.swapcase, lambda t: t[:-1], lambda t: t + "x", lambda t: "", lambda t: "levers__"]
)
def test_a_text_that_is_nearly_a_token_opens_nothing(spoil: "object") -> None:
    storage = MemoryStorage()
    text = create_token(storage, "read")
    assert callable(spoil)
    assert find_token(storage, spoil(text)) is None
    token_id = text.split("_")[1]
    for wrong in (
        f"levers_{token_id}_",
        f"levers_{token_id}_\udcff",
        f"levers_ü_{text[-43:]}",
        "\0",
        f"x_{token_id}_a",
    ):
        assert find_token(storage, wrong) is None


def test_a_revoked_token_opens_nothing(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/a.db")
    text, other = create_token(storage, "read"), create_token(storage, "admin")
    token_id = text.split("_")[1]
    revoke_token(storage, token_id)
    assert find_token(storage, text) is None
    assert [token.id for token in active_tokens(storage)] == [other.split("_")[1]]
    with pytest.raises(TokenError, match="could be revoked"):
        revoke_token(storage, token_id)


def test_a_token_that_makes_no_sense_is_refused() -> None:
    storage = MemoryStorage()
    with pytest.raises(InvalidSettingError, match="role"):
        create_token(storage, "root")
    with pytest.raises(NoSuchStudyError):
        create_token(storage, "read", study="none")
    with pytest.raises(TokenError, match="one line"):
        create_token(storage, "read", note="a\nb")
    new_study(storage)
    with pytest.raises(TokenError, match="admin"):
        create_token(storage, "admin", study="oven")
    assert storage.tokens() == []


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_a_request_with_a_key_happens_once(where: str, tmp_path: Path) -> None:
    url = MemoryStorage() if where == "memory" else f"sqlite:///{tmp_path}/a.db"
    study = new_study(url)
    act = lambda: ",".join(str(n) for n in study.ask_numbers(3))  # noqa: E731
    first = study.once("k1", "ask 3", act)
    assert study.once("k1", "ask 3", act) == first == "0,1,2"
    assert levers.load_study("oven", study.storage).once("k1", "ask 3", act) == first
    assert study.status().n_running == 3
    with pytest.raises(RepeatedKeyError, match="another request"):
        study.once("k1", "ask 4", act)
    assert study.once("k2", "ask 3", act) != first


def test_a_request_that_failed_may_be_sent_again_with_its_key() -> None:
    study = new_study()
    trial = study.ask()[0]

    def tell_then_stumble() -> str:
        study.tell(trial, 1.0)
        study.fail(trial)
        return "never"

    with pytest.raises(TrialError):
        study.once("k", "x", tell_then_stumble)
    assert study.status().n_complete == 0  # the telling went with the rest
    assert study.once("k", "x", lambda: str(study.tell_many([(trial, 1.0)]))) == "1"
    assert study.status().n_complete == 1


def test_many_threads_with_one_key_do_it_once(tmp_path: Path) -> None:
    study = new_study(f"sqlite:///{tmp_path}/a.db")
    answers: list[str] = []
    ask = lambda: answers.append(study.once("k", "ask", lambda: str(study.ask_numbers(1)[0])))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["0"] * 8


def test_a_key_must_be_plain() -> None:
    for key in ("", "x" * 201, "ü", "a\n"):
        with pytest.raises(InvalidSettingError, match="key"):
            new_study().once(key, "", lambda: "")


def test_who_acted_is_kept_per_handle() -> None:
    study = new_study()
    study.by("ann").ask()
    study.by("bob").ask()
    assert [record.who for record in study.storage.read(1, 0)][-2:] == ["ann", "bob"]


def test_a_frozen_state_stays_as_it_was() -> None:
    study = new_study()
    trials = study.ask(4)
    before = study.frozen()
    study.tell_many([(trial, 1.0) for trial in trials])
    study.correct(trials[0], 2.0, "typo")
    assert before.n_complete == 0
    assert before.trials.state[:4].tolist() == [1, 1, 1, 1]
    assert before.corrections == []
    assert study.frozen().n_complete == 4
