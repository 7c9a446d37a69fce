"""How good and how fast selections are: evaluation, simulation, example messages, judging offline."""
