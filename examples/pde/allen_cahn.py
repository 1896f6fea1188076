"""Allen-Cahn u_t = D u_xx + 5 (u - u^3), periodic in x by Fourier features, exact at t = 0."""

import numpy as np
from pinn import box, d, mlp, parameters, train

from pirkit import ops


def loss(params, x):
    def u(z):
        x, t = z[:, 0:1], z[:, 1:2]
        waves = [f(k * np.pi * x) for k in range(1, 5) for f in (ops.cos, ops.sin)]
        return (x**2 * ops.cos(np.pi * x) + t * mlp(params, ops.concat([*waves, t], axis=1)))[:, 0]

    u_t, u_xx = d(u, 1)(x), d(d(u, 0), 0)(x)
    return ((u_t - 0.001 * u_xx - 5.0 * (u(x) - u(x) ** 3)) ** 2).mean()


def problem(n=2000, dtype="float32"):
    x = box(n, (-1, 1), (0, 1), dtype=dtype)
    return parameters(9, 20, 20, 20, 1, dtype=dtype), (x,)


if __name__ == "__main__":
    train(loss, *problem())
