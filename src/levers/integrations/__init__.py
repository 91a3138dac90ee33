"""Bridges to tools that people already use."""
