"""Programs in and out. Importing the package imports what all of it needs, in one sweep."""

from pirkit.diag.collection import importing

with importing():
    from pirkit.frontend import files as files
