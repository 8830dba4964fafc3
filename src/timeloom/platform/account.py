"""Names the account that runs this process."""

import getpass


def current_user() -> str:
    """Return the name of the account that runs this process; `somebody` if the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
