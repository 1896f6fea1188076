"""pirkit as a backend of `torch.compile`. Importing this module registers it."""

from pirkit.torch.backend import pirkit as _backend
from pirkit.torch.export import (
    Explanation,
    GraphReport,
    explain,
    export,
    load_archive,
    program_of_exported,
)
from pirkit.torch.libtorch import dynamo as _dynamo

if "pirkit" not in _dynamo.list_backends(exclude_tags=()):
    _dynamo.register_backend(compiler_fn=_backend, name="pirkit")

__all__ = [
    "Explanation",
    "GraphReport",
    "explain",
    "export",
    "load_archive",
    "program_of_exported",
]
