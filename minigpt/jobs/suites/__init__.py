"""A table of a paper by one command: each column is a run of a job that is there already.

columns.toml    the suites, their columns, the paper's numbers, where the files are
table           the same, read; and which files are there
kept            the file of finished columns, from which a suite goes on
running         from the first column to the last, of `minigpt eval` and of `minigpt finetune`
"""
