"""What one process of a registry does for all: it keeps what follows from events and outcomes."""
