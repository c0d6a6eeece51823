"""What does a text from a user mean? Parsed, never evaluated."""
