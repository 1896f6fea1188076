"""Programs in and out. Importing the package imports everything that it needs at once."""

from pirkit.diag.gc_pause import importing

with importing():
    from pirkit.frontend import files as files
