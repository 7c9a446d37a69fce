"""Steps from one revision of the schema to the next; a step never changes after its release."""
