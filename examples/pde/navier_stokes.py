"""Steady Navier-Stokes in a driven cavity, by stream function and pressure: order 3, mixed."""

from pinn import box, d, edges, mlp, parameters, train

VISCOSITY = 0.01


def loss(params, x, side, lid):
    psi, p = (lambda x: mlp(params, x)[:, 0]), (lambda x: mlp(params, x)[:, 1])
    u, v = d(psi, 1), (lambda x: -d(psi, 0)(x))
    parts = []
    for w, k in ((u, 0), (v, 1)):
        flow = u(x) * d(w, 0)(x) + v(x) * d(w, 1)(x) + d(p, k)(x)
        parts.append(flow - VISCOSITY * (d(d(w, 0), 0)(x) + d(d(w, 1), 1)(x)))
    walls = ((u(side) - lid) ** 2).mean() + (v(side) ** 2).mean()
    return sum((r**2).mean() for r in parts) + walls


def problem(n=1000, dtype="float32"):
    sides = (0, 1), (0, 1)
    side = edges(n // 10, *sides, dtype=dtype)
    data = box(n, *sides, dtype=dtype), side, (side[:, 1] == 1).astype(dtype)
    return parameters(2, 50, 50, 50, 50, 2, dtype=dtype), data


if __name__ == "__main__":
    train(loss, *problem())
