"""The inputs of ``pirkit-run --inputs``: files of arrays, or random numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArgumentError, RuntimeFault, UsageError
from pirkit.diag.span import Span
from pirkit.frontend.arrays import read_npy, read_npz, restore
from pirkit.frontend.random_inputs import random_inputs, random_weights
from pirkit.frontend.safetensors_files import SUFFIX, read_safetensors
from pirkit.runtime.bind_inputs import bound_input
from pirkit.runtime.device import HOST
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Port

Arrays = dict[str, np.ndarray[Any, Any]]

RANDOM: Final = "random:"
SAFETENSORS: Final = "safetensors:"


def read_inputs(given: str, exe: Executable, params: str | None = None) -> Arrays:
    """The inputs that ``given`` names, comma-separated parts one after the other.

    A part is ``FILE.npz``, ``FILE.safetensors`` or ``safetensors:FILE``, ``NAME=FILE.npy``,
    ``FILE.npy`` (for the only input, or the one that the file is named after) or ``random:SEED``,
    which also draws the weights that the program lacks. Later parts replace earlier ones, but an
    input has one file of its own. Raises UsageError for anything else, ArtifactError for a file
    that cannot be read, RuntimeFault (PK0903) for arrays of another type than the program declares,
    its weights from the file ``params`` among them.
    """
    found: Arrays = {}
    alone: set[str] = set()
    for part in filter(None, given.split(",")):
        for name, array in _read(part, exe):
            if name in alone and part.endswith(".npy"):
                raise ArgumentError(
                    f"the input `{name}` is given twice", help="name each input once"
                )
            path = part.removeprefix(SAFETENSORS).rpartition("=")[2]
            _require_fit(exe.plan.inputs, "input", {name: array}, path)
            found[name] = array
            alone |= {name} if part.endswith(".npy") else set()
    if params:
        _require_fit(exe.plan.params, "parameter", exe.params, params)
    return found


def _require_fit(ports: Sequence[Port], what: str, held: Mapping[str, Any], path: str) -> None:
    """Raise RuntimeFault (PK0903), with the file as its place, for arrays of another type."""
    for port in ports:
        try:
            if held.get(port.name) is not None:
                bound_input(port, held[port.name], what, HOST)
        except RuntimeFault as error:
            error.span = error.span or Span(path)
            raise


def _read(part: str, exe: Executable) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    dtypes = {p.name: p.meta.dtype for p in exe.plan.inputs if isinstance(p.meta, TensorMeta)}
    if is_random(part):
        yield from _random(exe, seed_of(part)).items()
    elif part.startswith(SAFETENSORS) or part.endswith(SUFFIX):
        yield from read_safetensors(part.removeprefix(SAFETENSORS)).items()
    elif part.endswith(".npy"):
        name, equals, path = part.rpartition("=")
        if equals and not name:
            raise _malformed(part)
        name = name or _input_of(path, exe)
        array = read_npy(path)
        yield name, restore(array, dtypes[name]) if name in dtypes else array
    elif "=" in part and not os.path.exists(part):
        raise _malformed(part)
    else:
        yield from read_npz(part, {name: dtype.name for name, dtype in dtypes.items()}).items()


def _malformed(part: str) -> UsageError:
    name, _, value = part.partition("=")
    hint = f"one input is `{name or 'NAME'}=FILE.npy`; files of several have no name before them"
    if value.startswith(RANDOM):
        hint = f"`{value}` without a name draws all inputs; what is given after it replaces some"
    return ArgumentError(f"`{part}` is no input", help=hint)


def _input_of(path: str, exe: Executable) -> str:
    """The input that a file without a name is for."""
    names = [port.name for port in exe.plan.inputs]
    stem = Path(path).stem
    if stem in names:
        return stem
    if len(names) == 1:
        return names[0]
    raise ArgumentError(
        f"the program has {len(names)} inputs, and none is called `{stem}`",
        help=f"say which: {','.join(f'{name}=FILE.npy' for name in names)}",
    )


def is_random(part: str) -> bool:
    """Whether a part of ``--inputs`` draws random numbers: ``random:SEED``."""
    return part == RANDOM[:-1] or part.startswith(RANDOM)


def seed_of(given: str) -> int:
    """The seed of ``random:SEED``."""
    seed = given.removeprefix(RANDOM)
    if not seed.isdecimal():
        raise ArgumentError(
            f"the seed of random inputs is a number, not {seed!r}",
            help="for instance `--inputs random:0`",
        )
    return int(seed)


def _random(exe: Executable, seed: int) -> Arrays:
    exe.params = {**random_weights(exe.plan.params, seed), **exe.params}
    return random_inputs(exe.plan.inputs, seed)
