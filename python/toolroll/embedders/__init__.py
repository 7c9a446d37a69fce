"""Texts to unit vectors: each module is one way to do it, all by the protocol in `ports.py`."""
