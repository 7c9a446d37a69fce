"""What the store can say of selections and their outcomes: figures, estimates, experiments, exports.

Nothing here reads the text of a message, but for `parquet`, where it is asked for by name.
"""
