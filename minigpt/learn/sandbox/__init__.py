"""The sandbox: a learner's file runs in a process of its own, with NumPy and without minigpt; see README.md beside."""
