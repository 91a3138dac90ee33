"""The contract of a storage, as a class of tests that the tests of every storage inherit.

A subclass gives a fixture `storage` (an empty one), and `reopened`, a function that opens the same storage once more as
another process would.
"""

from collections.abc import Callable
from contextlib import suppress

from levers.errors import StudyError
from levers.studies.storage.base import Storage, Stored

_FIRST = (Stored(1, 10.0, "ann", "Created", '{"a": 1}'), Stored(2, 10.0, "ann", "Opened", "{}"))
_NEXT = Stored(3, 11.5, "bob \N{SNOWMAN}", "Told", '{"text": "quote \' and \\u0000 and \N{SNOWMAN}"}')


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
            writing.save_snapshot(3, b"x")
            raise _Stop
        assert storage.read(study, 0) == list(_FIRST)
        assert storage.snapshot(study) is None

    def test_the_last_snapshot_is_kept(self, storage: Storage, reopened: Callable[[], Storage]) -> None:
        """A snapshot is any bytes, with its place in the log."""
        study = storage.create("oven", _FIRST)
        assert storage.snapshot(study) is None
        for data in (b"\x00\xff", b"\x01" * 100_000):
            with storage.writing(study) as writing:
                writing.save_snapshot(2, data)
        assert reopened().snapshot(study) == (2, b"\x01" * 100_000)

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
            writing.save_snapshot(3, b"x")
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
