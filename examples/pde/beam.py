"""The Euler beam u'''' = -1, clamped at 0 and free at 1: derivatives of order 4."""

import numpy as np
from pinn import d, mlp, parameters, train


def loss(params, x, left, right):
    u = lambda x: mlp(params, x)[:, 0]
    u1, u2 = d(u, 0), d(d(u, 0), 0)
    u3, u4 = d(u2, 0), d(d(u2, 0), 0)
    clamped = (u(left) ** 2 + u1(left) ** 2).mean()
    free = (u2(right) ** 2 + u3(right) ** 2).mean()
    return ((u4(x) + 1.0) ** 2).mean() + clamped + free


def problem(n=1000, dtype="float32"):
    x = np.linspace(0, 1, n, dtype=dtype).reshape(n, 1)
    return parameters(1, 20, 20, 20, 1, dtype=dtype), (x, x[:1], x[-1:])


if __name__ == "__main__":
    train(loss, *problem())
