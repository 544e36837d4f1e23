"""One module for each group of commands; each command is a click function that answers an exit code."""
