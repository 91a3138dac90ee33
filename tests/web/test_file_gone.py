"""The file of a storage goes while a service process has it open: nothing is acknowledged until it is back."""

import os
import threading
from pathlib import Path

import httpx

import levers
from harness.http_load import running_server
from levers.client import Client
from levers.studies.library import load_study, open_storage

SECONDS = 60
"""So that a failure ends."""


def test_a_deleted_file_is_noticed_and_clients_go_on_when_it_is_back(tmp_path: Path) -> None:
    file, aside = tmp_path / "levers.db", tmp_path / "aside.db"
    url = f"sqlite:///{file}"
    levers.create_study("oven", {"heat": [1, 2, 3]}, tolerance=0.5, noise_sd=1.0, seed=1, storage=url)
    open_storage(url).close()
    with running_server(url) as server, httpx.Client(base_url=server.address, timeout=SECONDS) as http:
        api = "/api/v1/studies/oven"
        assert len(http.post(f"{api}/ask", json={"n": 3}).json()["trials"]) == 3
        assert http.post(f"{api}/tell", json={"trial": 0, "value": 1.0}).status_code == 200
        os.rename(file, aside)
        for _ in range(2):
            refused = http.post(f"{api}/tell", json={"trial": 1, "value": 2.0})
            assert refused.status_code == 503
            assert refused.json()["error"]["kind"] == "UnreachableError"
        assert http.get("/health").status_code == 503
        assert not file.exists()  # nobody has made another one in its place
        patient = Client(server.address, patience=SECONDS)
        teller = threading.Thread(target=lambda: patient.study("oven").tell(2, 3.0), daemon=True)
        teller.start()
        os.rename(aside, file)
        teller.join(SECONDS)
        assert not teller.is_alive()
        assert http.post(f"{api}/tell", json={"trial": 1, "value": 2.0}).json()["n_new"] == 1
        assert http.get("/health").status_code == 200
    study = load_study("oven", url)
    assert [study.trial(i).value for i in range(3)] == [1.0, 2.0, 3.0]
