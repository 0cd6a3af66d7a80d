"""The reference, read from the disk."""

with open("REFERENCE") as file:
    exec(file.read())
