"""The contract of a storage, as a class of tests that the tests of every storage inherit.

A subclass gives a fixture `storage` (an empty one), and `reopened`, a function that opens the same storage once more as
another process would.
"""

from collections.abc import Callable
from contextlib import suppress

from levers.errors import StudyError
from levers.studies.storage.base import Answer, Header, Session, Snapshot, Storage, Stored, Token, chained, new_log

_BEGIN = (Stored(1, 10.0, "ann", "Created", '{"a": 1}'), Stored(2, 10.0, "ann", "Opened", "{}"))
_FIRST = tuple(new_log("oven", _BEGIN))
_NEXT = chained(
    [Stored(3, 11.5, "bob \N{SNOWMAN}", "Told", '{"text": "quote \' and \\u0000 and \N{SNOWMAN}"}')], _FIRST[-1].digest
)[0]


class _Stop(Exception):
    pass


def _refused(action: Callable[[], object], expected: str) -> None:
    said = ""
    try:
        action()
    except StudyError as error:
        said = str(error)
    assert expected in said, f"expected an error with {expected!r}, got {said!r}"


class StorageContract:
    """What every storage must do."""

    def test_an_empty_storage_has_no_studies(self, storage: Storage) -> None:
        """A new storage can be listed, and says what to do when a name is not there."""
        assert storage.names() == []
        _refused(lambda: storage.find("oven"), "there is none yet")

    def test_what_was_appended_is_read_back_the_same(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """Records keep every character and every bit, also for another process."""
        study = storage.create("oven", _FIRST)
        with storage.writing(study) as writing:
            assert writing.read(0) == list(_FIRST)
            writing.append([_NEXT])
        for one in (storage, reopened()):
            assert one.read(study, 0) == [*_FIRST, _NEXT]
            assert one.read(study, 2) == [_NEXT]
            assert one.read(study, 3) == []

    def test_nothing_is_kept_of_a_writing_that_failed(self, storage: Storage) -> None:
        """All or nothing: neither records nor the snapshot."""
        study = storage.create("oven", _FIRST)
        with suppress(_Stop), storage.writing(study) as writing:
            writing.append([_NEXT])
            writing.save_snapshot(Snapshot.of(3, _NEXT.digest, b"x"))
            raise _Stop
        assert storage.read(study, 0) == list(_FIRST)
        assert storage.snapshot(study) is None
        assert storage.header(study) == Header("oven", 10.0, 2, _FIRST[-1].digest, _FIRST[-1].digest)

    def test_the_end_of_the_log_is_kept_beside_it(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """What was written last, by its digest, for whoever looks and for whoever holds the lock; other ends stay."""
        study, other = storage.create("oven", _FIRST), storage.create("farm", new_log("farm", _BEGIN))
        first = Header("oven", 10.0, 2, _FIRST[-1].digest, _FIRST[-1].digest)
        for one in (storage, reopened()):
            assert one.header(study) == first
        assert first.origin != storage.header(other).origin
        with storage.writing(study) as writing:
            assert writing.header() == first
            writing.append([_NEXT])
            assert writing.header() == first
        with reopened().writing(study) as writing:
            assert writing.header() == Header("oven", 10.0, 3, _NEXT.digest, _NEXT.digest)
        assert storage.header(other).n_events == 2

    def test_the_last_snapshot_is_kept(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """A snapshot is any bytes, with its place in the log."""
        study = storage.create("oven", _FIRST)
        assert storage.snapshot(study) is None
        for data in (b"\x00\xff", b"\x01" * 100_000):
            with storage.writing(study) as writing:
                writing.save_snapshot(Snapshot.of(2, _FIRST[-1].digest, data))
        found = reopened().snapshot(study)
        assert found == Snapshot.of(2, _FIRST[-1].digest, b"\x01" * 100_000)
        assert found.is_whole

    def test_an_answer_is_kept_with_what_was_written(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """Answers belong to one study and one key, live and die with their writing, and are dropped when old."""
        study, other = storage.create("oven", _FIRST), storage.create("farm", _FIRST)
        answer = Answer("k-1", 12.5, "0" * 64, '{"x": "\N{SNOWMAN}"}')
        with suppress(_Stop), storage.writing(study) as writing:
            writing.keep_answer(answer)
            raise _Stop
        with storage.writing(study) as writing:
            assert writing.answer("k-1") is None
            writing.keep_answer(answer)
        again = reopened()
        with again.writing(study) as writing:
            assert writing.answer("k-1") == answer
            writing.forget_answers(12.5)
        with again.writing(study) as writing:
            assert writing.answer("k-1") == answer
            writing.forget_answers(12.6)
        with storage.writing(study) as writing:
            assert writing.answer("k-1") is None
            writing.keep_answer(answer)
        with storage.writing(other) as beside:
            assert beside.answer("k-1") is None

    def test_tokens_are_kept_until_they_are_revoked(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """A token can be found and revoked once, also by another process; it goes with its study."""
        study = storage.create("oven", _FIRST)
        mine, everybody = Token("a1", "write", study, "bench ü", "d" * 64, 5.0), Token("b2", "read", None, "", "e", 6.0)
        for token in (mine, everybody):
            storage.add_token(token)
        again = reopened()
        assert again.tokens() == [mine, everybody]
        assert again.token("a1") == mine
        assert again.token("zz") is None
        assert again.revoke_token("b2", 7.0)
        assert not storage.revoke_token("b2", 8.0)
        assert not storage.revoke_token("zz", 8.0)
        found = storage.token("b2")
        assert found is not None
        assert found.revoked_at == 7.0
        storage.delete(study)
        assert [token.id for token in again.tokens()] == ["b2"]

    def test_a_token_can_get_another_end(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """When a token ends can be changed until it is revoked."""
        storage.add_token(Token("a1", "write", None, "", "d" * 64, 5.0, None, 50.0))
        assert reopened().tokens() == [Token("a1", "write", None, "", "d" * 64, 5.0, None, 50.0)]
        assert reopened().expire_token("a1", 20.5)
        assert storage.token("a1") == Token("a1", "write", None, "", "d" * 64, 5.0, None, 20.5)
        assert storage.revoke_token("a1", 7.0)
        assert not storage.expire_token("a1", 90.0)
        assert not storage.expire_token("zz", 90.0)
        assert reopened().token("a1") == Token("a1", "write", None, "", "d" * 64, 5.0, 7.0, 20.5)

    def test_sessions_are_kept_until_they_end(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """A session is found by its value, also by another process, and goes when it ends, is over, or its study is."""
        study = storage.create("oven", _FIRST)
        storage.add_token(Token("a1", "write", study, "", "d" * 64, 5.0))
        storage.add_token(Token("b2", "read", None, "", "e" * 64, 5.0))
        first, second, third = (
            Session(c * 64, token, 10.0 + i, 10.0 + i, 100.0)
            for i, (c, token) in enumerate([("1", "a1"), ("2", "b2"), ("3", "b2")])
        )
        for session in (first, second, third):
            storage.add_session(session)
        again = reopened()
        assert again.sessions() == [first, second, third]
        assert again.session(second.value) == second
        assert again.session("4" * 64) is None
        again.see_session(second.value, 40.5)
        again.see_session("4" * 64, 40.5)
        found = storage.session(second.value)
        assert found is not None
        assert (found.seen_at, found.created_at) == (40.5, second.created_at)
        storage.end_session(third.value)
        storage.end_session(third.value)
        assert again.session(third.value) is None
        storage.delete(study)
        assert [session.value for session in again.sessions()] == [second.value]
        storage.forget_sessions(99.0, 40.5)
        assert again.session(second.value) is not None
        storage.forget_sessions(99.0, 41.0)
        storage.add_session(third)
        storage.forget_sessions(100.0, 0.0)
        assert again.sessions() == []

    def test_names_are_unique_and_listed_in_order(self, storage: Storage) -> None:
        """Two studies cannot share a name; a wrong name gets a hint."""
        for name in ("oven", "Oven", "farm ü"):
            storage.create(name, _FIRST)
        _refused(lambda: storage.create("oven", _FIRST), "already")
        assert [name for _, name in storage.names()] == ["oven", "Oven", "farm ü"]
        assert storage.find("farm ü") == storage.names()[2][0]
        _refused(lambda: storage.find("ovem"), "did you mean 'oven'")

    def test_studies_do_not_touch_each_other(self, storage: Storage) -> None:
        """Each has its own log, and deleting one leaves the others."""
        one, other = storage.create("one", _FIRST), storage.create("other", _FIRST)
        with storage.writing(one) as writing:
            writing.append([_NEXT])
            writing.save_snapshot(Snapshot.of(3, _NEXT.digest, b"x"))
        assert storage.read(other, 0) == list(_FIRST)
        storage.delete(one)
        assert [name for _, name in storage.names()] == ["other"]
        assert storage.read(other, 0) == list(_FIRST)

    def test_a_deleted_study_is_not_written_to(self, storage: Storage) -> None:
        """A worker that comes late is told, and its number is never used for another study."""
        study = storage.create("oven", _FIRST)
        storage.delete(study)

        def write() -> None:
            with storage.writing(study) as writing:
                writing.append([_NEXT])

        _refused(write, "deleted")
        _refused(lambda: storage.read(study, 0), "deleted")
        assert storage.create("oven", _FIRST) != study
