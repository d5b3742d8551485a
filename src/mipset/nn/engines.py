"""Engines: what computes the layers of a network. All engines give the same results, up to rounding.

`Engine` is plain torch, on any device. `Native` uses C++ kernels for float32 on a CPU: convolutions by Winograd's
minimal filtering (a quarter of the multiplications), and norm, ReLU and pooling in one pass, with the first and second
derivatives that gradient matching needs. It leaves all other cases to torch. Under `torch.autocast`, both round the
factors of products to bfloat16. On processors that multiply such matrices in a unit of their own, torch convolves then,
and what layers pass on is bfloat16 too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from mipset.errors import NoCompilerError
from mipset.nn.native import Block, Kernels, functions, lined_up, stretches

COMPILE_FROM = 3e11  # FLOPs from which compiling is worth its time: some seconds of plain torch

# From so many input channels on, oneDNN computes the weight gradient of a strided 1 x 1 convolution safely. It copies
# the pixels that are used into a workspace first. For images in channels_last order with fewer channels than fit into a
# vector (8 with AVX2, 16 with AVX-512), it writes past the end of that workspace, and the process crashes or hangs:
# https://github.com/uxlfoundation/oneDNN/issues/6035, present in torch 2.13 with oneDNN 3.12.
SAFE_CHANNELS = 16
SIDES = (1, 3, 7)  # of the filters that keep the memory order of the kernels


class Engine:
    """Plain torch."""

    def __str__(self) -> str:
        return "plain torch"

    @property
    def for_weights_too(self) -> Engine:
        """The same engine with second derivatives by all weights, as they are needed to train through training."""
        return self

    def convolve(self, images: Tensor, layer: nn.Conv2d) -> Tensor:
        """The output of `layer` for images [B, ch, h, w]."""
        images, stride = _without_unsafe_stride(images, layer)
        return F.conv2d(images, layer.weight, layer.bias, stride, layer.padding, layer.dilation, layer.groups)

    def norm_relu_pool(self, x: Tensor, norm: nn.Module, pool: int = 2) -> Tensor:
        """A norm, ReLU and average pooling: [B, ch, h, w] to [B, ch, h/pool, w/pool]."""
        activated = F.relu(norm(x))
        return F.avg_pool2d(activated, pool) if pool > 1 else activated

    def norm(self, x: Tensor, norm: nn.Module) -> Tensor:
        """A norm alone."""
        normed: Tensor = norm(x)
        return normed

    def weight_gradients(
        self, inputs: Tensor, slopes: Tensor, layer: nn.Conv2d | nn.Linear, ends: Sequence[int]
    ) -> Tensor:
        """The gradient of the layer's weight, summed over each stretch of images between two `ends`: [k, *weight].

        `inputs` went into the layer, `slopes` are the gradient at its output.
        """
        return torch.stack([_weight_gradient(inputs[i:j], slopes[i:j], layer) for i, j in stretches(ends)])


def _weight_gradient(inputs: Tensor, slopes: Tensor, layer: nn.Conv2d | nn.Linear) -> Tensor:
    if isinstance(layer, nn.Linear):
        return slopes.T @ inputs
    inputs, stride = _without_unsafe_stride(inputs, layer)
    gradient: Tensor = conv2d_weight(  # type: ignore[no-untyped-call]
        inputs, layer.weight.shape, slopes, stride, layer.padding, layer.dilation, layer.groups
    )
    return gradient


def _without_unsafe_stride(images: Tensor, layer: nn.Conv2d) -> tuple[Tensor, tuple[int, ...]]:
    """The images to convolve, and the stride. An unsafe stride becomes 1, and the pixels it skips are left out here."""
    pointwise = layer.kernel_size == (1, 1) and layer.padding in ((0, 0), "valid")
    if images.device.type != "cpu" or not pointwise or max(layer.stride) == 1 or layer.in_channels >= SAFE_CHANNELS:
        return images, layer.stride
    down, across = layer.stride
    return images[..., ::down, ::across], (1, 1)


class Native(Engine):
    """C++ kernels for the cases that they cover, torch for the others."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def __str__(self) -> str:
        return "compiled kernels"

    @property
    def for_weights_too(self) -> Engine:
        return NativeConvolutions(self)

    def convolve(self, images: Tensor, layer: nn.Conv2d) -> Tensor:
        if not _keeps_resolution(images, layer):
            return super().convolve(images, layer)
        if _half() and matrix_unit():
            return super().convolve(lined_up(images), layer)
        return functions.convolve(self._kernels, _padded(images, layer), layer.weight, layer.bias, _half())

    def norm_relu_pool(self, x: Tensor, norm: nn.Module, pool: int = 2) -> Tensor:
        kind = Block(pool)
        if not (_each_channel_alone(norm, x) and kind.covered and min(x.shape[2:]) >= pool):
            return super().norm_relu_pool(x, norm, pool)
        return functions.norm_relu_pool(self._kernels, x, norm.weight, norm.bias, norm.eps, kind)

    def norm(self, x: Tensor, norm: nn.Module) -> Tensor:
        if not _each_channel_alone(norm, x):
            return super().norm(x, norm)
        kind = Block(pool=1, relu=False)
        return functions.norm_relu_pool(self._kernels, x, norm.weight, norm.bias, norm.eps, kind)

    def weight_gradients(
        self, inputs: Tensor, slopes: Tensor, layer: nn.Conv2d | nn.Linear, ends: Sequence[int]
    ) -> Tensor:
        if isinstance(layer, nn.Linear) or not _keeps_resolution(inputs, layer):
            return super().weight_gradients(inputs, slopes, layer, ends)
        side = layer.kernel_size[0]
        return functions.weight_gradients(self._kernels, _padded(inputs, layer), slopes, ends, _half(), side)


class NativeConvolutions(Engine):
    """C++ kernels for convolutions, torch for the rest: the kernels of norms have no second derivatives by weights."""

    def __init__(self, kernels: Native) -> None:
        self._native = kernels

    def convolve(self, images: Tensor, layer: nn.Conv2d) -> Tensor:
        return self._native.convolve(images, layer)


def native() -> Native:
    """The engine with C++ kernels; compiles them at the first use on a machine. NoCompilerError if that fails."""
    return Native(Kernels.compiled())


def default_engine(
    device: torch.device, flops: Callable[[], float], failed: Callable[[NoCompilerError], object] = lambda _: None
) -> Engine:
    """The engine for work of so many FLOPs, which are counted only if they matter: kernels on a CPU, for longer work.

    If the kernels cannot be compiled, plain torch does the work, and `failed` is told why.
    """
    if device.type != "cpu" or flops() < COMPILE_FROM:
        return Engine()
    try:
        return native()
    except NoCompilerError as error:
        failed(error)
        return Engine()


def _covered(*tensors: Tensor | None) -> bool:
    return all(x is None or (_on_cpu(x) and x.dtype == torch.float32) for x in tensors)


def _on_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu"


@cache
def matrix_unit() -> bool:
    """Whether this processor multiplies bfloat16 matrices in a unit of its own, which torch uses: AMX of Intel Xeons.

    A direct convolution with it is several times faster than a Winograd convolution without it.
    """
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions cannot tell
    return bool(capabilities.get("amx_bf16") and capabilities.get("amx_tile"))


def _half() -> bool:
    return torch.is_autocast_enabled("cpu")


def _keeps_resolution(images: Tensor, layer: nn.Conv2d) -> bool:
    """Whether this is a convolution of all channels with square filters of 1, 3 or 7 pixels, and with stride 1.

    Its padding is as much as keeps the resolution, or more.
    """
    down, across = layer.kernel_size
    plain = down == across and (layer.stride, layer.dilation, layer.groups) == ((1, 1), (1, 1), 1)
    padded = isinstance(layer.padding, tuple) and min(layer.padding) >= down // 2 and layer.padding_mode == "zeros"
    fitting = images.dim() == 4 and images.shape[1] == layer.in_channels
    return plain and down in SIDES and padded and fitting and _covered(images, layer.weight, layer.bias)


def _each_channel_alone(norm: nn.Module, x: Tensor) -> TypeGuard[nn.GroupNorm]:
    """Whether this is an instance norm with learned scale and shift, of images that the kernels can read."""
    if not (isinstance(norm, nn.GroupNorm) and norm.affine and x.dim() == 4 and x.numel()):
        return False
    images = _on_cpu(x) and x.dtype in (torch.float32, torch.bfloat16)
    return norm.num_groups == norm.num_channels == x.shape[1] and images and _covered(norm.weight, norm.bias)


def _padded(images: Tensor, layer: nn.Conv2d) -> Tensor:
    """Images with all of the padding but what keeps the resolution, which the kernel adds."""
    down, across = (int(side) - layer.kernel_size[0] // 2 for side in layer.padding)
    return F.pad(images, (across, across, down, down)) if down or across else images
