"""The test suite of pirkit."""
