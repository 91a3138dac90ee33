"""Few parents among very many factors: found in random columns, then settled."""
