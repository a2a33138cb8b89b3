"""The commands that run processes of this machine: ``local`` is the resource manager, the others ask it."""
