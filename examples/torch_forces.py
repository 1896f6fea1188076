"""A network of energies, trained on forces: its backward is differentiated once more.

Needs torch: ``python examples/torch_forces.py [steps]``.
"""

from __future__ import annotations

import sys

import torch

import pirkit.torch  # noqa: F401  registers the backend


def main(steps: int) -> tuple[float, float]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, 20), torch.nn.Tanh(),
        torch.nn.Linear(20, 1),
    )  # fmt: skip
    energy = torch.compile(model, backend="pirkit")
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    places = torch.randn(64, 3)
    wanted = -2 * places  # the forces of the energy |x|^2
    losses: list[float] = []
    for _ in range(steps):
        x = places.clone().requires_grad_()
        (force,) = torch.autograd.grad(-energy(x).sum(), x, create_graph=True)
        loss = (force - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


if __name__ == "__main__":
    first, last = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    print(f"loss of the forces: {first:.4f} at first, {last:.4f} at last")
