"""Where the world touches us: sockets, files, signals, the command line."""
