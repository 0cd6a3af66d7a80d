"""Data sets as they are published: a reader for each form, and one table of layouts by which a file is recognised."""
