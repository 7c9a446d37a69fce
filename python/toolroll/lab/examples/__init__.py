"""Writes example messages of tools with a language model, for `toolroll examples`.

A model is asked for messages that each tool should answer, and for near misses that it should not. Its
answers are hostile input. They are bounded and screened. Then a round trip through selection keeps the
messages that find their tool.

Source: Z. Dai et al., "Promptagator: Few-shot Dense Retrieval From 8 Examples", 2022, for the round trip.
"""
