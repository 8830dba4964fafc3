"""Names the account that runs this process."""

import getpass
from typing import Final

from timeloom.platform.user_names import is_user_name

UNKNOWN_USER: Final = "somebody"


def current_user() -> str:
    """Return the name of the account that runs this process; `somebody` if the system knows no valid one.

    Environment variables such as `LOGNAME` can set any text.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return UNKNOWN_USER
    return name if is_user_name(name) else UNKNOWN_USER
