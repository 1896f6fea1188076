"""Programs in and out: formats, files, tracing, compilation, transforms of functions.

Importing the package imports its reader of files and all that this needs under one pause of the
garbage collector, which makes the first import faster (see `diag/gc_pause.py`).
"""

from pirkit.diag.gc_pause import importing

with importing():
    from pirkit.frontend import files as files
