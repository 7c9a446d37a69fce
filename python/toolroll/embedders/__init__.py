"""Turns texts into unit vectors: each file is one way to do it, behind `toolroll.model.embedder.Embedder`.

A new embedder is a file here, a line in `named.py` and a line in `tests/contract/test_embedders.py`. Another
package offers one by an entry point.
"""
