"""Writes example messages of tools with a language model, for `toolroll examples`.

A model writes messages that a tool should answer, and near misses that it should not. Its answers are hostile
input: bounded and screened. A round trip through selection then keeps the messages that find their tool.

Source: Z. Dai et al., "Promptagator: Few-shot Dense Retrieval From 8 Examples", 2022, for the round trip.
"""
