"""Looking after a whole storage: check, backup, restore, repair."""
