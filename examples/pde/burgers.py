"""Burgers' equation u_t + u u_x = nu u_xx on [-1, 1] x [0, 1], from -sin(pi x)."""

import numpy as np
from pinn import box, d, mlp, parameters, train


def loss(params, x, start, wall):
    u = lambda x: mlp(params, x)[:, 0]
    u_x, u_t, u_xx = d(u, 0), d(u, 1), d(d(u, 0), 0)
    residual = u_t(x) + u(x) * u_x(x) - 0.01 / np.pi * u_xx(x)
    initial = u(start[:, :2]) - start[:, 2]
    return (residual**2).mean() + (initial**2).mean() + (u(wall) ** 2).mean()


def problem(n=2540, dtype="float32"):
    x = box(n, (-1, 1), (0, 1), dtype=dtype)
    start = box(n // 16, (-1, 1), (0, 0), dtype=dtype)
    start = np.concatenate([start, -np.sin(np.pi * start[:, :1])], axis=1)
    wall = box(n // 32, (-1, 1), (0, 1), seed=3, dtype=dtype)
    wall[:, 0] = np.where(wall[:, 0] > 0, 1, -1)
    return parameters(2, 20, 20, 20, 1, dtype=dtype), (x, start, wall)


if __name__ == "__main__":
    train(loss, *problem())
