"""The precision of products: float32, or bfloat16 with sums in float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

HALF: Mapping[str, bool] = {"float32": False, "bfloat16": True}  # by the names of PRECISIONS


def products_in_half(images: Tensor, half: bool = True) -> torch.autocast:
    """A context in which the layers of a network round the factors of their products to bfloat16, for these images."""
    kind = images.device.type
    return torch.autocast("cpu" if kind == "meta" else kind, torch.bfloat16, enabled=half)  # work is counted on meta
