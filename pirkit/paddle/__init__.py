"""pirkit inside Paddle: live programs of `paddle.jit.to_static`, and steps that train them."""

from pirkit.paddle.live_program import from_static
from pirkit.paddle.train_step import TrainStep, train_step

__all__ = ["TrainStep", "from_static", "train_step"]
