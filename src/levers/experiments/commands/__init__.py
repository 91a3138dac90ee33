"""Tuning a command: its arguments from a setting, a process that runs them, and a number from what it did."""
