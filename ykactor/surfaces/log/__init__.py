"""The log of the process: its lines, and the thread that writes them."""
