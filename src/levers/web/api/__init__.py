"""The HTTP API, version 1."""

from fastapi import APIRouter, Depends
from fastapi.security import HTTPBearer

from levers.web.api import diagnosing, files, looking, managing, planning, runs, trials, uploads

# only says in the document how to send a token: each operation checks it by itself, which takes one thread less
bearer = HTTPBearer(auto_error=False, scheme_name="token", description="Made with `levers token create`.")

router = APIRouter(dependencies=[Depends(bearer)])
for _part in (managing, runs, looking, diagnosing, trials, files, uploads, planning):
    router.include_router(_part.router)

__all__ = ["bearer", "router"]
