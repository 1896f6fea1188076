"""Korteweg-de Vries u_t + 6 u u_x + u_xxx = 0 from a soliton."""

import numpy as np
from pinn import box, d, mlp, parameters, train


def loss(params, x, start):
    u = lambda x: mlp(params, x)[:, 0]
    u_x, u_t, u_xxx = d(u, 0), d(u, 1), d(d(d(u, 0), 0), 0)
    residual = u_t(x) + 6.0 * u(x) * u_x(x) + u_xxx(x)
    return (residual**2).mean() + ((u(start[:, :2]) - start[:, 2]) ** 2).mean()


def problem(n=2000, dtype="float32"):
    x, start = box(n, (-5, 5), (0, 1), dtype=dtype), box(n // 10, (-5, 5), (0, 0), dtype=dtype)
    start = np.concatenate([start, 0.5 / np.cosh(start[:, :1] / 2) ** 2], axis=1)
    return parameters(2, 50, 50, 50, 50, 1, dtype=dtype), (x, start)


if __name__ == "__main__":
    train(loss, *problem())
