"""The museum of wrong backward passes: each piece is the library's own source with one plausible mistake in it."""
