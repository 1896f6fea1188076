"""pirkit: a compiler toolkit for PIR programs."""
