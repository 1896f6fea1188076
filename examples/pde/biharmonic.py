"""A clamped plate, u_xxxx + 2 u_xxyy + u_yyyy = 1: the Laplacian of a Laplacian."""

from pinn import box, d, edges, mlp, parameters, train


def laplacian(u):
    return lambda x: d(d(u, 0), 0)(x) + d(d(u, 1), 1)(x)


def loss(params, x, side):
    u = lambda x: mlp(params, x)[:, 0]
    plate = laplacian(laplacian(u))(x) - 1.0
    clamped = u(side) ** 2 + d(u, 0)(side) ** 2 + d(u, 1)(side) ** 2
    return (plate**2).mean() + clamped.mean()


def problem(n=2000, dtype="float32"):
    sides = (-1, 1), (-1, 1)
    data = box(n, *sides, dtype=dtype), edges(n // 16, *sides, dtype=dtype)
    return parameters(2, 20, 20, 20, 20, 20, 1, dtype=dtype), data


if __name__ == "__main__":
    train(loss, *problem())
