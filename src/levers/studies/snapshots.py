"""The state of a study as bytes, so that loading need not read the whole log. Never the truth: it may be lost."""

import heapq
import io
import json
import zlib
from collections import deque
from dataclasses import asdict

import numpy as np

from levers.core.codec import from_json, to_json
from levers.studies.events import Created, Imported, Opened
from levers.studies.fold import Block, Correction, Lease, PastRuns, StudyState
from levers.studies.trials import TrialState, TrialTable

FORMAT = 1
EVERY = 1000
GROWTH = 0.2


def is_due(state: StudyState, last: int) -> bool:
    """Whether enough has happened since the last snapshot: in proportion, so that a long study does not pay more."""
    return state.seq - last >= max(EVERY, GROWTH * state.trials.n_trials)


def freeze(state: StudyState) -> bytes:
    """The state as bytes."""
    n = state.trials.n_trials
    arrays = {name: getattr(state.trials, name)[:n] for name in TrialTable.columns}
    for i, block in enumerate(state.blocks):
        arrays |= {f"values{i}": block.values, f"holders{i}": block.holders}
    header = {
        "format": FORMAT,
        "seq": state.seq,
        "times": [state.created_at, state.updated_at],
        "spec": to_json(Created(state.spec)),
        "known": [to_json(known) for known in state.known],
        "batches": [to_json(Opened(block.batch)) for block in state.blocks],
        "blocks": [[block.first, block.n_missing, block.role] for block in state.blocks],
        "leases": [[lease.worker, lease.at, lease.deadline] for lease in state.leases],
        "again": list(state.again),
        "fresh": state.fresh,
        "corrections": [asdict(c) for c in state.corrections],
        "past": [to_json(Imported(p.codes, p.values, p.note)) for p in state.past],
        "past_used": state.past_used,
        "n_failed": state.n_failed,
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    return zlib.compress(buffer.getvalue(), 1)


def thaw(data: bytes) -> StudyState | None:
    """The state again; None when another version wrote it, in which case the log tells."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            return None
        table = TrialTable()
        table.n_trials = len(arrays["state"])
        for name in TrialTable.columns:
            setattr(table, name, arrays[name])
        blocks = [
            Block(from_json(batch, Opened).batch, first, arrays[f"values{i}"], arrays[f"holders{i}"], missing, role)
            for i, (batch, (first, missing, role)) in enumerate(zip(header["batches"], header["blocks"], strict=True))
        ]
    past = [from_json(text, Imported) for text in header["past"]]
    state = StudyState(
        seq=header["seq"],
        spec_=from_json(header["spec"], Created).spec,
        created_at=header["times"][0],
        updated_at=header["times"][1],
        blocks=blocks,
        known=[from_json(text, object) for text in header["known"]],
        trials=table,
        leases=[Lease(*lease) for lease in header["leases"]],
        again=deque(header["again"]),
        fresh=header["fresh"],
        corrections=[Correction(**{**c, "changes": tuple(c["changes"])}) for c in header["corrections"]],
        past=[PastRuns(p.codes, p.values, p.note) for p in past],
        past_used=header["past_used"],
        n_failed=header["n_failed"],
    )
    _restore_deadlines(state)
    return state


def _restore_deadlines(state: StudyState) -> None:
    """Leases that still hold a running trial."""
    n = state.trials.n_trials
    running = np.flatnonzero(state.trials.state[:n] == TrialState.RUNNING)
    by_lease: dict[int, list[int]] = {}
    for trial, lease in zip(running.tolist(), state.trials.lease[running].tolist(), strict=True):
        by_lease.setdefault(lease, []).append(trial)
    for lease, trials in by_lease.items():
        deadline = state.leases[lease].deadline
        if deadline is not None:
            heapq.heappush(state.expiring, (deadline, lease, tuple(trials)))
