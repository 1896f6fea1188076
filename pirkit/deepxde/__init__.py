"""DeepXDE models that train in native code: ``pirkit.deepxde.accelerate(model)``.

For DeepXDE's backends PyTorch and Paddle. Needs deepxde and one of these.
"""

from pirkit.deepxde.accelerate import accelerate

__all__ = ["accelerate"]
