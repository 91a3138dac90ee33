"""Repair: what can be read of a damaged storage, put into a new one, and said what is gone.

A log is only as good as its chain: a study is saved up to the first event that is missing or not as it was written.
What came after it can be read, but nobody knows that it followed; so it is not in the study, and written to a table.
"""

import csv
import os
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from levers.errors import LeversError, StorageError
from levers.studies.events import Told
from levers.studies.state import StudyState
from levers.studies.storage.base import Answer, Stored, chained, decoded
from levers.studies.storage.care.backup import write_rows
from levers.studies.storage.care.check import EVENT, OLDER, of_right_types, token_of
from levers.studies.storage.care.rows import Row, reading
from levers.studies.storage.care.salvage import salvaged_rows
from levers.studies.storage.chain import origin_digest, total_of
from levers.studies.storage.schema import metadata, storage_row, study_digest

_OPEN_ENDED = ("Created", "Decided", "Corrected", "Excluded", "Revised", "Restated", "Continued", "Finished")
"""Events that something else always follows in the same transaction: a log does not end with one of them."""


@dataclass(frozen=True, slots=True)
class SavedStudy:
    """One study: events that were written, saved, missing, and that come after what is missing."""

    name: str
    n_written: int
    n_saved: int
    missing: tuple[int, ...]
    left_over: tuple[int, ...]
    note: str = ""

    def __str__(self) -> str:
        if self.n_saved == self.n_written and not self.note:
            return f"study {self.name!r}: all {self.n_saved} events saved"
        parts = [f"{self.n_saved} of {self.n_written} events saved"]
        if self.missing:
            parts.append(f"gone or changed: {_ranges(self.missing)}")
        if self.left_over:
            parts.append(f"left over, since nobody knows that they followed: {_ranges(self.left_over)}")
        return f"study {self.name!r}: " + "; ".join(parts + ([self.note] if self.note else []))


@dataclass
class Repaired:
    """What a repair saved, study by study, and what else is to be said."""

    studies: list[SavedStudy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    n_tokens: int = 0
    left_over: str | None = None
    """The file with what came after a hole; None when there is nothing."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is gone."""
        return not self.notes and all(one.n_saved == one.n_written and not one.note for one in self.studies)


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges([3, 4, 5, 9])
    '3 to 5, 9'
    """
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    shown = ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts[:20])
    return shown + (f" and {len(parts) - 20} more places" if len(parts) > 20 else "")


def repair_storage(address: str, target: str, left_over: str | os.PathLike[str]) -> Repaired:
    """Save what can be read of a storage into a new one; the damaged one stays as it is.

    Outcomes that came after a hole in a log go into the file `left_over` (.csv), if there are any.

    >>> import levers, sqlite3, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> url = f"sqlite:///{folder}/levers.db"
    >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=url)
    >>> study.tell_many([(trial, 1.0) for trial in study.ask(3)])
    3
    >>> with sqlite3.connect(f"{folder}/levers.db") as by_hand:
    ...     _ = by_hand.execute("DELETE FROM events WHERE seq = 4")
    >>> by_hand.close()
    >>> print(repair_storage(url, f"sqlite:///{folder}/saved.db", f"{folder}/left-over.csv").studies[0])
    study 'oven': 3 of 5 events saved; gone or changed: 4; left over, since nobody knows that they followed: 5
    """
    aside = os.fspath(left_over)
    if os.path.exists(aside):
        raise StorageError(f"{aside} exists already; give another name for what is left over")
    _refuse_older(address)
    found, report = salvaged_rows(address), Repaired()
    if not any(found[table] for table in ("studies", "events")):
        raise StorageError("nothing that can be read is a study of levers; a backup is all that helps")
    own = _own_row(found["storage"])
    studies, loose = _studies(found, own), []
    contents: dict[str, list[Row]] = {"studies": [], "events": [], "answers": [], "tokens": []}
    for row in studies:
        events = [one for one in found["events"] if one["study_id"] == row["id"]]
        saved, kept, after = _saved(row, _stored(events))
        report.studies.append(saved)
        loose += [(saved.name, one) for one in after]
        if not kept:
            continue
        right = _answers(row, found["answers"]) if saved.n_saved == saved.n_written else []
        lost = sum(1 for one in found["answers"] if one["study_id"] == row["id"]) - len(right)
        if lost:
            report.notes.append(f"study {saved.name!r}: {lost} answers to requests with a key were not kept")
        contents["studies"].append(_study_row(row, kept, right))
        contents["events"] += [{"study_id": row["id"], **_event_row(one)} for one in kept]
        contents["answers"] += right
    contents["tokens"] = _tokens(found["tokens"], own, {row["id"] for row in contents["studies"]}, report)
    report.n_tokens = len(contents["tokens"])
    _write(target, contents, own, report)
    if loose:
        _write_left_over(aside, loose)
        report.left_over = aside
    return report


def _refuse_older(address: str) -> None:
    """Logs of older versions have no digests to tell what is as it was written."""
    try:
        with reading(address) as rows:
            version = rows.version()
    except (StorageError, sqlite3.Error):  # damaged where that is kept
        return
    if version in OLDER:
        raise StorageError(f"the storage has schema {version}; make a copy, and `levers storage upgrade` that first")


def _own_row(rows: Iterable[Row]) -> Row | None:
    """What the storage knew of itself, if that is as it was written."""
    for row in rows:
        if of_right_types("storage", row) and row == storage_row(*(row[n] for n in _OWN)):
            return row
    return None


_OWN = ("identity", "last_study", "studies", "tokens")


def _studies(found: dict[str, list[Row]], own: Row | None) -> list[Row]:
    """The studies, one row each; those whose row is gone are known by their events."""
    rows: dict[int, Row] = {}
    for row in found["studies"]:
        if isinstance(row["id"], int) and isinstance(row["name"], str):
            rows.setdefault(row["id"], row)
    named = [study_digest(r["id"], r["name"], r["created_at"]) for r in rows.values() if of_right_types("studies", r)]
    are_right = own is not None and own["studies"] == total_of(named)
    for study in {row["study_id"] for row in found["events"] if isinstance(row["study_id"], int)} - rows.keys():
        rows[study] = {"id": study, "name": f"recovered {study}", "created_at": 0.0, "n_events": None, "head": None}
    taken: set[str] = set()
    for row in sorted(rows.values(), key=lambda one: int(one["id"])):
        row["is_named"] = are_right
        while row["name"] in taken or not row["name"]:
            row["name"] = f"{row['name']} {row['id']}".strip()
        taken.add(row["name"])
    return [rows[study] for study in sorted(rows)]


def _stored(rows: Iterable[Row]) -> dict[int, list[Stored]]:
    """What can be read for each place in a log."""
    found: dict[int, list[Stored]] = {}
    for row in rows:
        if of_right_types("events", row):
            one = Stored(*(row[name] for name in EVENT))
            if one.seq > 0:
                found.setdefault(one.seq, []).append(one)
    return found


def _saved(row: Row, found: dict[int, list[Stored]]) -> tuple[SavedStudy, list[Stored], list[Stored]]:
    """A study's unbroken log, and what comes after it."""
    name, note = row["name"], ""
    origin = origin_digest(name, row["created_at"]) if isinstance(row["created_at"], float) else ""
    kept = _unbroken(origin, found, row["head"])
    if not kept and not row["is_named"]:
        # the name or the time of creation is damaged, which the first event is chained to; the second tells the first
        for one in found.get(1, []):
            rest = _unbroken(one.digest, found, row["head"], 2)
            if rest:
                kept, note = [one, *rest], "its name or time of creation may be another"
                break
    n_chained = len(kept)
    kept = _foldable(kept)
    if note or (kept and origin != origin_digest(name, kept[0].at)):
        kept = chained(kept, origin_digest(name, kept[0].at)) if kept else kept
    known = (
        row["n_events"] if isinstance(row["n_events"], int) and 0 <= row["n_events"] <= 10 * len(found) + 1000 else 0
    )
    n_written = max([known, *found])
    missing = tuple(seq for seq in range(1, n_written + 1) if seq not in found or seq == n_chained + 1)
    after = [found[seq][0] for seq in sorted(found) if seq > len(kept) and seq not in missing]
    if n_chained + 1 in found:  # it can be read, and is not as it was written
        after = [one for one in after if one.seq != n_chained + 1]
    if n_chained == n_written and n_chained > len(kept):
        note = note or "its last events cannot be read by this version"
    saved = SavedStudy(name, n_written, len(kept), missing, tuple(one.seq for one in after), note)
    return saved, kept, after


def _unbroken(head: str, found: dict[int, list[Stored]], end: object, seq: int = 1) -> list[Stored]:
    """Events from `seq` on, as far as each is the one that was written after the one before."""
    kept: list[Stored] = []
    while seq in found:
        right = [one for one in found[seq] if one.digest == one.digest_after(head)]
        if not right:  # it may be only the digest that is damaged: then what follows is chained to the right one
            tried = [replace(one, digest=one.digest_after(head)) for one in found[seq]]
            after = found.get(seq + 1, [])
            right = [
                one for one in tried if one.digest == end or any(n.digest == n.digest_after(one.digest) for n in after)
            ]
        if not right:
            break
        kept.append(right[0])
        head, seq = right[0].digest, seq + 1
    return kept


def _foldable(kept: list[Stored]) -> list[Stored]:
    """As much of a log as a study can go on from."""
    state, n = StudyState(), 0
    try:
        for record in decoded(kept):
            state.apply(record)
            n += 1
    except (LeversError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        kept = kept[:n]
    while kept and kept[-1].kind in _OPEN_ENDED and not _ends_well(kept):
        kept = kept[:-1]
    return kept


def _ends_well(kept: list[Stored]) -> bool:
    """Whether a log that ends with a decision has come to its end by it."""
    state = StudyState()
    for record in decoded(kept):
        state.apply(record)
    return state.open_block is None and bool(state.blocks) and state.progress.finished


def _answers(study: Row, rows: Iterable[Row]) -> list[Row]:
    """Answers that are as they were given."""
    found: dict[str, Row] = {}
    for row in rows:
        if row["study_id"] == study["id"] and of_right_types("answers", row):
            one = Answer(row["key"], row["at"], row["request"], row["answer"])
            if one.digest == row["digest"]:
                found[one.key] = row
    return list(found.values())


def _tokens(rows: Iterable[Row], own: Row | None, studies: set[int], report: Repaired) -> list[Row]:
    """All tokens if none was changed, else none: one that was changed may open more than it did."""
    found = {row["id"]: row for row in rows if of_right_types("tokens", row)}
    total = total_of([token_of(row).row_digest for row in found.values()])
    if own is None or own["tokens"] != total:
        if found or own is not None:
            report.notes.append(
                "tokens: some are gone or changed, so none was kept; `levers token create` makes new ones"
            )
        return []
    return [row for row in found.values() if row["study_id"] in (None, *studies)]


def _study_row(row: Row, kept: Sequence[Stored], answers: Sequence[Row]) -> Row:
    return {
        "id": row["id"],
        "name": row["name"],
        "created_at": kept[0].at,
        "n_events": len(kept),
        "head": kept[-1].digest,
        "answers": total_of([one["digest"] for one in answers]),
        "snapshot": "",
    }


def _event_row(one: Stored) -> dict[str, Any]:
    return {name: getattr(one, name) for name in EVENT}


def _write(target: str, contents: dict[str, list[Row]], own: Row | None, report: Repaired) -> None:
    studies = contents["studies"]
    last = max([0, own["last_study"] if own is not None else 0, *(row["id"] for row in studies)])
    made = total_of([study_digest(row["id"], row["name"], row["created_at"]) for row in studies])
    tokens = total_of([token_of(row).row_digest for row in contents["tokens"]])
    identity = own["identity"] if own is not None and report.is_whole else uuid.uuid4().hex
    columns = {column.name for column in metadata.tables["studies"].columns}
    studies = [{name: value for name, value in row.items() if name in columns} for row in studies]
    own_row = storage_row(identity, last, made, tokens)
    write_rows(target, {**contents, "studies": studies, "storage": [own_row]}, last)


def _write_left_over(path: str, loose: Iterable[tuple[str, Stored]]) -> None:
    """One row for each outcome, and one for each other event."""
    with open(path, "x", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["study", "event", "at", "who", "kind", "trial", "outcome", "data"])
        for name, one in loose:
            begin = [_plain(name), one.seq, one.at, _plain(one.who), _plain(one.kind)]
            try:
                event = decoded([one])[0].event
            except LeversError:
                event = None
            if isinstance(event, Told):
                pairs = zip(event.trials.tolist(), event.values.tolist(), strict=True)
                table.writerows([*begin, trial, value, ""] for trial, value in pairs)
            else:
                table.writerow([*begin, "", "", _plain(one.data)])


def _plain(value: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> _plain("=1+1")
    "'=1+1"
    """
    return f"'{value}" if value[:1] in "=+-@\t\r" and value else value
