"""A network of energies, trained on forces: the loss is differentiated where it holds derivatives.

Needs torch: ``python examples/torch_forces.py [steps]``. Energies, forces, the loss and the
gradients of all parameters are one graph, without autograd's engine at run time; the update of the
optimizer is another one.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import pirkit.torch  # noqa: F401  registers the backend

torch._dynamo.config.trace_autograd_ops = True  # derivatives inside of compiled functions


def main(steps: int) -> tuple[float, float]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, 20), torch.nn.Tanh(),
        torch.nn.Linear(20, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 0.01)

    @torch.compile(backend="pirkit")
    def gradients(places: Any, wanted: Any) -> Any:
        x = places.detach().requires_grad_()
        (force,) = torch.autograd.grad(-model(x).sum(), x, create_graph=True)
        loss = (force - wanted).square().mean()
        loss.backward()
        return loss.detach()

    update = torch.compile(optimizer.step, backend="pirkit")
    places = torch.randn(64, 3)
    wanted = -2 * places  # the forces of the energy |x|^2
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(float(gradients(places, wanted)))
        update()
    return losses[0], losses[-1]


if __name__ == "__main__":
    first, last = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    print(f"loss of the forces: {first:.4f} at first, {last:.4f} at last")
