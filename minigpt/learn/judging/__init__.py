"""Judging a learner's file: cases, verdicts and reports are made here, from what its process answers."""
