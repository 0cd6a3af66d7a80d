"""The classroom: a learner's file is loaded, judged as an implementation, and tried in place."""
