"""Whoever makes runs: keeps what was measured until it is told, waits for a storage that is away, renews leases."""
