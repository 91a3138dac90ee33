"""The HTTP API, version 1."""

from fastapi import APIRouter, Depends
from fastapi.security import HTTPBearer

from levers.web.api import files, results, runs, studies, trials

# only says in the document how to send a token: each operation checks it by itself, which takes one thread less
bearer = HTTPBearer(auto_error=False, scheme_name="token", description="Made with `levers token create`.")

router = APIRouter(dependencies=[Depends(bearer)])
for _part in (studies.router, runs.router, results.router, trials.router, files.router, studies.planning):
    router.include_router(_part)

__all__ = ["bearer", "router"]
