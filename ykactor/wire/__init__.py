"""Bytes to structs and back. No trio, no decisions."""
