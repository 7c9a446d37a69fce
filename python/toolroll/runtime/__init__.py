"""The services that any program needs, each once: threads, files, locations, missing extras."""
