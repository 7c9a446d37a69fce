"""What a host records: appended to one file of the machine, and shipped to the registry from there."""
