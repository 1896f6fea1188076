"""Tests of the IR: its types, operations, texts and rules."""
