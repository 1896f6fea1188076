"""Programs in and out. Importing the package imports what all of it needs, in one sweep."""

from pirkit.diag.gc_pause import importing

with importing():
    from pirkit.frontend import files as files
