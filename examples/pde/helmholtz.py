"""Helmholtz' equation -(u_xx + u_yy) - k^2 u = k^2 sin(k x) sin(k y), by a network of sines."""

import numpy as np
from pinn import box, d, edges, mlp, parameters, train

from pirkit import ops

K = 4 * np.pi


def loss(params, x, side):
    u = lambda x: mlp(params, x, ops.sin)[:, 0]
    laplacian = sum(d(d(u, k), k)(x) for k in range(2))
    source = K**2 * ops.sin(K * x[:, 0]) * ops.sin(K * x[:, 1])
    return ((laplacian + K**2 * u(x) + source) ** 2).mean() + 100.0 * (u(side) ** 2).mean()


def problem(n=1500, dtype="float32"):
    sides = (0, 1), (0, 1)
    data = box(n, *sides, dtype=dtype), edges(n // 10, *sides, dtype=dtype)
    return parameters(2, 50, 50, 50, 1, dtype=dtype), data


if __name__ == "__main__":
    train(loss, *problem())
