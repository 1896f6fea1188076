"""Volterra's u' + u = integral of exp(s - t) u(s) from 0 to t, with u(0) = 1, by quadrature."""

import numpy as np
from pinn import d, mlp, parameters, train

from pirkit import ops

NODES = 20


def loss(params, t, weights, nodes, start):
    u = lambda t: mlp(params, t)[:, 0]
    integral = weights * u(nodes).reshape((-1, NODES)) * ops.exp(nodes.reshape((-1, NODES)) - t)
    residual = d(u, 0)(t) + u(t) - integral.sum(axis=1)
    return (residual**2).mean() + ((u(start) - 1.0) ** 2).mean()


def problem(n=100, dtype="float32"):
    t = np.linspace(0, 5, n).reshape(n, 1)
    places, weights = np.polynomial.legendre.leggauss(NODES)
    nodes = (t * (places + 1) / 2).reshape(-1, 1)
    arrays = t, t * weights / 2, nodes, t[:1]
    return parameters(1, 20, 20, 20, 1, dtype=dtype), tuple([a.astype(dtype) for a in arrays])


if __name__ == "__main__":
    train(loss, *problem())
