"""Where outcomes contradict what a certificate rests on (docs/theory/doubts.md)."""
