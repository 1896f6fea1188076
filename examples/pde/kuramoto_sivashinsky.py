"""Kuramoto-Sivashinsky u_t + u u_x + u_xx + u_xxxx = 0, by a network of sines."""

import numpy as np
from pinn import box, d, mlp, parameters, train

from pirkit import ops


def loss(params, x, start):
    u = lambda x: mlp(params, x, ops.sin)[:, 0]
    u_x, u_t, u_xx = d(u, 0), d(u, 1), d(d(u, 0), 0)
    u_xxxx = d(d(u_xx, 0), 0)
    residual = u_t(x) + u(x) * u_x(x) + u_xx(x) + u_xxxx(x)
    return (residual**2).mean() + ((u(start[:, :2]) - start[:, 2]) ** 2).mean()


def problem(n=2000, dtype="float32"):
    x, start = box(n, (-8, 8), (0, 1), dtype=dtype), box(n // 10, (-8, 8), (0, 0), dtype=dtype)
    start = np.concatenate([start, np.cos(start[:, :1] * np.pi / 8)], axis=1)
    return parameters(2, 50, 50, 50, 50, 1, dtype=dtype), (x, start)


if __name__ == "__main__":
    train(loss, *problem())
