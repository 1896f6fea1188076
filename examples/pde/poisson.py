"""Poisson's equation -(u_xx + u_yy) = 1 on a square, zero on its sides."""

from pinn import box, d, edges, mlp, parameters, train


def loss(params, x, side):
    u = lambda x: mlp(params, x)[:, 0]
    laplacian = sum(d(d(u, k), k)(x) for k in range(2))
    return ((laplacian + 1.0) ** 2).mean() + (u(side) ** 2).mean()


def problem(n=1200, dtype="float32"):
    sides = (-1, 1), (-1, 1)
    data = box(n, *sides, dtype=dtype), edges(n // 10, *sides, dtype=dtype)
    return parameters(2, 50, 50, 50, 50, 1, dtype=dtype), data


if __name__ == "__main__":
    train(loss, *problem())
