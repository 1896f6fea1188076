"""Operators, integral and fractional equations of DeepXDE train in native code as in torch."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import pytest

os.environ["DDE_BACKEND"] = "pytorch"
torch: Any = pytest.importorskip("torch")
dde: Any = pytest.importorskip("deepxde")
if dde.backend.backend_name != "pytorch":
    pytest.skip("deepxde runs on another backend", allow_module_level=True)

from tests.deepxde import test_accelerate as plain  # noqa: E402
from tests.deepxde.test_accelerate import adam, double, net  # noqa: E402

__all__ = ["double"]

pytestmark = [  # of torch itself, about what DeepXDE uses
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Sparse (invariant checks|CSR tensor support):UserWarning"),
]

PLACES: Final = np.linspace(0, 1, 6)[:, None]


def deeponet(kind: str, outputs: int = 1, **more: Any) -> Any:
    made = getattr(dde.nn, kind)
    return made([6, 8, 8], [1, 8, 8], "tanh", "Glorot normal", num_outputs=outputs, **more)


def triple(points: int) -> tuple[Any, ...]:
    """Functions, places and values of antiderivatives, as DeepXDE's data sets have them."""
    rates = np.random.default_rng(0).normal(size=(10, 1))
    places = np.linspace(0, 1, points)[:, None]
    return (np.cos(rates * PLACES.T), places), np.sin(rates * places.T) / rates


def case_triple() -> Any:
    (functions, places), values = triple(10)
    pairs, at = (functions, places), np.diagonal(values)[:, None].copy()
    return dde.Model(dde.data.Triple(pairs, at, pairs, at), deeponet("DeepONet")), adam(), []


def case_cartesian_batches() -> Any:
    data = dde.data.TripleCartesianProd(*triple(7), *triple(7))
    return dde.Model(data, deeponet("DeepONetCartesianProd")), adam(), []


def equation(data: Any, bcs: Any = None) -> Any:
    ic = dde.icbc.IC(data, lambda _: 0, lambda _, on: on)
    return dde.data.PDE(
        data, lambda x, u, v: dde.grad.jacobian(u, x) + u * u - v, bcs or ic, 8, 2, num_test=9
    )


def operator(kind: Any, network: Any, **more: Any) -> Any:
    line = dde.geometry.TimeDomain(0, 1)
    space = dde.data.GRF(length_scale=0.4)
    return dde.Model(kind(equation(line), space, PLACES, 5, num_test=4, **more), network)


def case_unaligned() -> Any:
    return operator(dde.data.PDEOperator, deeponet("DeepONet")), adam(), []


def case_aligned() -> Any:
    network = deeponet("DeepONetCartesianProd")
    network.apply_output_transform(lambda x, y: y * torch.transpose(x[1], 0, 1))
    return operator(dde.data.PDEOperatorCartesianProd, network, batch_size=3), adam(), []


def case_aligned_second_order() -> Any:
    line = dde.geometry.Interval(-1, 1)
    bc = dde.icbc.DirichletBC(line, lambda x: x, lambda _, on: on)
    pde = dde.data.PDE(line, lambda x, y, f: -dde.grad.hessian(y, x) - f, bc, 10, 2)
    space = dde.data.PowerSeries(N=3)
    data = dde.data.PDEOperatorCartesianProd(pde, space, PLACES, 4)
    return dde.Model(data, deeponet("DeepONetCartesianProd")), [{"optimizer": "L-BFGS"}], []


def case_aligned_many_functions() -> Any:
    """A loop over functions that is rerolled, with a condition that reads each of them."""
    line = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    ic = dde.icbc.IC(line, lambda x, v: v, lambda _, on: on)

    def heat(x: Any, y: Any, v: Any) -> Any:
        return dde.grad.jacobian(y, x, j=1) - dde.grad.hessian(y, x) * y - v

    pde = dde.data.TimePDE(line, heat, ic, num_domain=8, num_initial=3)
    made = [dde.data.GRF(length_scale=0.4), PLACES, 12]
    data = dde.data.PDEOperatorCartesianProd(
        pde, *made, function_variables=[0], num_test=4, batch_size=9
    )
    network = dde.nn.DeepONetCartesianProd([6, 8, 8], [2, 8, 8], "tanh", "Glorot normal")
    return dde.Model(data, network), adam(), []


def case_forward_mode() -> Any:
    dde.config.set_default_autodiff("forward")
    line = dde.geometry.Interval(-1, 1)
    bc = dde.icbc.DirichletBC(line, lambda x: 0, lambda _, on: on)

    def pde(x: Any, y: Any, f: Any) -> Any:
        return dde.grad.hessian(y, x)[0][..., 0] - f

    more = {"outputs": 2, "multi_output_strategy": "split_both"}
    network = dde.nn.DeepONetCartesianProd([6, 8, 8], [1, 8, 8], "tanh", "Glorot normal", 2,
                                           more["multi_output_strategy"])  # fmt: skip
    data = dde.data.PDE(line, pde, bc, 10, 2)
    data = dde.data.PDEOperatorCartesianProd(data, dde.data.PowerSeries(N=3), PLACES, 4)
    return dde.Model(data, network), adam(), []


def case_zero_coordinate_shift() -> Any:
    line = dde.geometry.Interval(-1, 1)
    bc = dde.icbc.DirichletBC(line, lambda x: 0, lambda _, on: on)

    def pde(zcs: Any, y: Any, f: Any) -> Any:
        lazy = dde.zcs.LazyGrad(zcs, y)
        return lazy.compute((2,)) + lazy.compute((1,)) * y - f

    data = dde.data.PDE(line, pde, bc, 10, 2)
    data = dde.zcs.PDEOperatorCartesianProd(data, dde.data.PowerSeries(N=3), PLACES, 4)
    return dde.zcs.Model(data, deeponet("DeepONetCartesianProd")), adam(), []


def case_zero_coordinate_shift_in_time() -> Any:
    """A loop over functions that is rerolled; the shifts are two variables, both of zero."""
    line = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    ic = dde.icbc.IC(line, lambda x: 0, lambda _, on: on)

    def heat(zcs: Any, y: Any, v: Any) -> Any:
        lazy = dde.zcs.LazyGrad(zcs, y)
        return lazy.compute((0, 1)) - lazy.compute((2, 0)) - v

    pde = dde.data.TimePDE(line, heat, ic, num_domain=6, num_initial=3)
    made = [dde.data.GRF(length_scale=0.4), PLACES, 9]
    data = dde.zcs.PDEOperatorCartesianProd(pde, *made, function_variables=[0], num_test=4)
    network = dde.nn.DeepONetCartesianProd([6, 8, 8], [2, 8, 8], "tanh", "Glorot normal")
    return dde.zcs.Model(data, network), adam(), []


def case_integral() -> Any:
    def ide(x: Any, y: Any, matrix: Any) -> Any:
        rhs = torch.matmul(torch.as_tensor(matrix), y)
        slope = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
        return (slope + y)[: rhs.numel()] - rhs

    geom = dde.geometry.TimeDomain(0, 5)
    ic = dde.icbc.IC(geom, lambda _: 1, lambda _, on: on)
    kernel = lambda x, s: np.exp(s - x)  # noqa: E731
    data = dde.data.IDE(geom, ide, ic, 4, kernel=kernel, num_domain=6, num_boundary=2, num_test=7)
    return dde.Model(data, net(1, 8, 1)), adam(), []


def case_joined_types() -> Any:
    """DeepXDE keeps this basis in float32 and joins it to a network in float64."""
    draw = np.random.default_rng(0).normal
    given = [(draw(size=(n, 8)), draw(size=(15, 1))) for n in (12, 4)]
    wanted = [draw(size=(n, 15)) for n in (12, 4)]
    data = dde.data.TripleCartesianProd(given[0], wanted[0], given[1], wanted[1])
    sizes: Any = {"layer_sizes_trunk": [1, 8, 6]}
    basis = torch.as_tensor(draw(size=(15, 5)))
    network = dde.nn.PODDeepONet(basis, [8, 8, 11], "tanh", "Glorot normal", **sizes)
    return dde.Model(data, network), adam(), []


def fractional(x: Any, y: Any, matrix: Any) -> Any:
    if isinstance(matrix, tuple | list):
        places, values, sizes = matrix
        matrix = torch.sparse_coo_tensor(np.asarray(places).T, values, tuple(sizes))
        rows = matrix.to_sparse_csr()
        lhs = torch.sparse.mm(matrix, y) + matrix @ y - torch.mv(rows, y[:, 0])[:, None]
    else:
        lhs = torch.matmul(torch.as_tensor(matrix), y)
    return lhs - torch.sum(x**2, dim=1, keepdim=True)[: lhs.numel()]


def case_fractional_on_a_mesh() -> Any:
    line = dde.geometry.Interval(0, 1)
    bc = dde.icbc.DirichletBC(line, lambda x: x**2, lambda _, on: on)
    data = dde.data.FPDE(line, fractional, 1.5, bc, [13], meshtype="static")
    return dde.Model(data, net(1, 8, 1)), adam(), []


def case_fractional_in_a_disk() -> Any:
    disk = dde.geometry.Disk([0, 0], 1)
    bc = dde.icbc.DirichletBC(disk, lambda x: x[:, :1], lambda _, on: on)
    data = dde.data.FPDE(disk, fractional, 1.8, bc, [4, 8], num_domain=8, num_boundary=2)
    network = net(2, 8, 1)
    network.apply_output_transform(lambda x, y: (1 - torch.sum(x**2, dim=1, keepdim=True)) * y)
    return dde.Model(data, network), adam(), []


CASES: Final[dict[str, Any]] = {
    name.removeprefix("case_"): value for name, value in globals().items() if "case_" in name
}


@pytest.fixture(autouse=True)
def reverse() -> Any:
    yield
    dde.config.set_default_autodiff("reverse")


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain.compared(CASES[name])
