"""DeepXDE models that train in native code: ``pirkit.deepxde.accelerate(model)``.

For DeepXDE's PyTorch backend. Needs torch and deepxde; nothing else of pirkit does.
"""

from pirkit.deepxde.accelerate import Accelerated, accelerate

__all__ = ["Accelerated", "accelerate"]
