"""All runs in one fit: blocks extend it, levels are dropped at any time, and its leaders are the answer."""
