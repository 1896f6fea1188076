"""Rules of image sampling, regions of interest and detection."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.vision import (  # noqa: F401
    grid_sample,
    roi_pool,
    yolo_loss,
)
