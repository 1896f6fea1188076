"""The conductivity c in u_t = c u_xx from measurements of u."""

import numpy as np
from pinn import box, d, mlp, parameters, train


def loss(params, x, places, measured):
    net, c = params
    u = lambda x: mlp(net, x)[:, 0]
    residual = d(u, 1)(x) - c * d(d(u, 0), 0)(x)
    return (residual**2).mean() + ((u(places) - measured) ** 2).mean()


def problem(n=1000, dtype="float32"):
    x, places = (
        box(n, (0, 1), (0, 1), dtype=dtype),
        box(n // 5, (0, 1), (0, 1), seed=5, dtype=dtype),
    )
    measured = np.exp(-0.3 * np.pi**2 * places[:, 1]) * np.sin(np.pi * places[:, 0])
    net = parameters(2, 20, 20, 20, 1, dtype=dtype)
    return (net, np.ones(1, dtype)), (x, places, measured.astype(dtype))


if __name__ == "__main__":
    print(train(loss, *problem(), steps=5000)[1])
