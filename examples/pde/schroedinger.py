"""Nonlinear Schroedinger i h_t + h_xx / 2 + |h|^2 h = 0, real and imaginary part."""

import numpy as np
from pinn import box, d, mlp, parameters, train


def loss(params, x, start):
    u, v = (lambda x: mlp(params, x)[:, 0]), (lambda x: mlp(params, x)[:, 1])
    square = u(x) ** 2 + v(x) ** 2
    real = d(u, 1)(x) + 0.5 * d(d(v, 0), 0)(x) + square * v(x)
    imaginary = d(v, 1)(x) - 0.5 * d(d(u, 0), 0)(x) - square * u(x)
    initial = (u(start[:, :2]) - start[:, 2]) ** 2 + v(start[:, :2]) ** 2
    return (real**2).mean() + (imaginary**2).mean() + initial.mean()


def problem(n=2000, dtype="float32"):
    x, start = box(n, (-5, 5), (0, 1.5), dtype=dtype), box(n // 10, (-5, 5), (0, 0), dtype=dtype)
    start = np.concatenate([start, 2 / np.cosh(start[:, :1])], axis=1)
    return parameters(2, 50, 50, 50, 50, 2, dtype=dtype), (x, start)


if __name__ == "__main__":
    train(loss, *problem())
