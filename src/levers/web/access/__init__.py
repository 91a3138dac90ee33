"""Who calls, by which name, and how often with a wrong token."""
