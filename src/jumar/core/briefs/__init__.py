"""What a recovered agent is told: as data, and as prose in English or Chinese.

A brief is made from what is on record of a run: the calls on its line, what a rollback left standing, what it asks
somebody, its newest plan.  The trace has no part in it.

Steps are told from the calls: a step is finished once something was begun after its last call, outside of it, and
nothing in it is open.  So the step that was under way when the run was cut off is never called finished, even where
all its calls are; they answer from the record when it is entered again.  A loop agent's steps are its turns.

Everything that came from outside (results, arguments, messages, questions, planned names) is cleaned of control
characters, cut, and quoted in the prose, so that it reads as what was said and not as what to do.  Both the lists and
the prose are bounded, and say how much they left out.
"""
