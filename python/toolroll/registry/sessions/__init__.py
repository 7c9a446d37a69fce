"""What conversations hold, kept in the store: it survives restarts and goes from replica to replica."""
