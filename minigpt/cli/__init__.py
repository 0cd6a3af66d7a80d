"""The command line: `main` reads the words, calls the job, and turns a user's mistake into one line and status 2."""

from minigpt.cli.main import main

__all__ = ["main"]
