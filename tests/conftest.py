"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
# The same examples on every run; a campaign looks for new ones with HYPOTHESIS_PROFILE=explore.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Tests change what compiles programs: what they make of one is nobody else's.
os.environ["PIRKIT_NATIVE_CACHE"] = "objects"
