"""The pages."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse


def add_pages(app: FastAPI) -> None:
    """Add all pages and static files."""


def error_page(request: Request, status: int, kind: str, message: str) -> Response:
    """An error as a page."""
    return HTMLResponse("", status)
