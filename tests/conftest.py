"""Settings that hold for every test: how hard hypothesis tries.

`default` draws the same examples each time, so that a failure in one run is a failure in all. `thorough` looks for new
ones: `TIMELOOM_HYPOTHESIS=thorough make test`.
"""

import os

from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("thorough", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TIMELOOM_HYPOTHESIS", "default"))
