"""Sampling of images, regions of interest, and detection."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.vision import (  # noqa: F401
    affine_grid,
    anchors,
    deformable_conv,
    detection,
    grid_sample,
    nms,
    roi_pool,
    yolo_loss,
)
