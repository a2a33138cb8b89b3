"""What is decided. Only plain ``def``: no trio, no clock, no randomness, nothing but the standard library and msgspec."""
