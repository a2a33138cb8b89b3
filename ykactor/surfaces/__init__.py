"""The outer layer: sockets, files, signals and the command line."""
