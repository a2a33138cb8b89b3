"""The files of a daemon: those that others write and it reads and watches, and its state directory."""
