"""A physics-informed DeepONet: s_t = D s_xx + k s^2 + f(x) for many sources f at once."""

import numpy as np
from pinn import box, d, mlp, parameters, train


def loss(params, sensors, points, source, edge):
    branch, trunk = params
    features = mlp(branch, sensors)
    s = lambda z: (features * mlp(trunk, z)).sum(axis=1)
    residual = d(s, 1)(points) - 0.01 * (d(d(s, 0), 0)(points) + s(points) ** 2) - source
    return (residual**2).mean() + (s(edge) ** 2).mean()


def problem(n=2000, dtype="float32"):
    functions, grid = 50, np.linspace(0, 1, 50)
    waves = np.sin(np.pi * np.outer(np.arange(1, 5), grid))
    values = np.random.default_rng(4).normal(size=(functions, 4)) @ waves
    which, points = np.arange(n) % functions, box(n, (0, 1), (0, 1), dtype=dtype)
    source = np.array(
        [np.interp(p[0], grid, values[i]) for p, i in zip(points, which, strict=True)]
    )
    edge = points * [0, 1]
    nets = parameters(50, 64, 64, 64, dtype=dtype), parameters(2, 64, 64, 64, dtype=dtype)
    arrays = values[which], points, source, edge
    return nets, tuple([a.astype(dtype) for a in arrays])


if __name__ == "__main__":
    train(loss, *problem())
