"""The one exception that means: the user can mend this; show the line, not a traceback."""


class UserError(Exception):
    """One line that says what was wrong and what would be right; commands exit with status 2."""
