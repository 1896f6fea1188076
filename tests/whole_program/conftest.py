"""Tests of native code compile what they run, and leave the user's cache alone."""

import os

os.environ["PIRKIT_NATIVE_CACHE"] = "off"
