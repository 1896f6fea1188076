"""A loop that fine-tunes a small language model with frozen embeddings.

Needs torch: ``python examples/torch_finetuning.py [steps]``.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import pirkit.torch  # noqa: F401  registers the backend


class Model(nn.Module):
    """Embedding, transformer layers with a causal mask, logits."""

    def __init__(self, words: int = 50, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width).requires_grad_(False)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


def main(steps: int) -> tuple[float, float]:
    torch.manual_seed(0)
    model = Model()
    compiled = torch.compile(model, backend="pirkit")
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 0.01)
    tokens = torch.arange(17).repeat(4, 1) + torch.arange(4)[:, None]
    losses: list[float] = []
    for _ in range(steps):
        logits = compiled(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


if __name__ == "__main__":
    first, last = main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print(f"cross entropy: {first:.3f} at first, {last:.3f} at last")
