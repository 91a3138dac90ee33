"""Where logs are kept: in memory, SQLite or PostgreSQL."""
