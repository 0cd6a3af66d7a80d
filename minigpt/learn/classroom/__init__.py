"""The classroom: what a learner has done and what is next, a judge for each exercise, and a report for a teacher."""
