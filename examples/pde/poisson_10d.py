"""Poisson's equation in ten dimensions: one row for the Laplacian beside ten first derivatives."""

from pinn import box, d, edges, mlp, parameters, train


def loss(params, x, side):
    u = lambda x: mlp(params, x)[:, 0]
    laplacian = sum(d(d(u, k), k)(x) for k in range(10))
    return ((laplacian - 2.0) ** 2).mean() + ((u(side) - (side**2).mean(axis=1)) ** 2).mean()


def problem(n=1000, dtype="float32"):
    sides = [(-1, 1)] * 10
    data = box(n, *sides, dtype=dtype), edges(n // 5, *sides, dtype=dtype)
    return parameters(10, 64, 64, 64, 1, dtype=dtype), data


if __name__ == "__main__":
    train(loss, *problem())
