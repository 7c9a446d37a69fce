"""What any program needs and this one has once: threads, files, locations, missing extras."""
