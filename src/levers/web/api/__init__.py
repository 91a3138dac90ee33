"""The HTTP API, version 1."""

from fastapi import APIRouter

router = APIRouter()

__all__ = ["router"]
