"""Counts for whoever watches the service, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

_API = "/api/v1"
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """Requests by route, method and status, how long they took, and how many pages follow a study.

    >>> metrics = Metrics()
    >>> metrics.observe({"method": "GET", "route": None}, 404, 0.001)
    >>> 'levers_requests_total{method="GET",route="other",status="404"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter("levers_requests", "Requests.", (*labels, "status"), registry=self._registry)
        self._seconds = Histogram(
            "levers_request_seconds", "Time to answer.", labels, buckets=_BUCKETS, registry=self._registry
        )
        self.followers = Gauge("levers_followers", "Pages that follow a study live.", registry=self._registry)

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request. Routes are counted by their pattern, so that names of studies do not become labels."""
        found = getattr(scope.get("route"), "path", None) or "other"
        if found != "other" and not found.startswith(_API) and str(scope.get("path")).startswith(_API):
            found = _API + found  # the router leaves out under what it is included
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests.labels(method, found, str(status)).inc()
        self._seconds.labels(method, found).observe(seconds)

    def text(self) -> str:
        """All of it."""
        return generate_latest(self._registry).decode()


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
