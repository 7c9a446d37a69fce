"""How many requests the service answers: `python -m bench.service`."""
