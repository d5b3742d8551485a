"""Engines: what computes the layers of a network. All engines give the same results, up to rounding.

`Engine` is plain torch, on any device. `Native` uses C++ kernels for float32 on a CPU: convolutions by Winograd's
minimal filtering (a quarter of the multiplications), and norm, ReLU and pooling in one pass, with the first and second
derivatives that gradient matching needs. It leaves all other cases to torch. Under `torch.autocast`, both round the
factors of products to bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from mipset.errors import NoCompilerError
from mipset.nn.native import Kernels, functions, stretches

COMPILE_FROM = 3e11  # FLOPs from which compiling is worth its time: some seconds of plain torch

# From so many input channels on, oneDNN computes the weight gradient of a strided 1 x 1 convolution safely. It copies
# the pixels that are used into a workspace first. For images in channels_last order with fewer channels than fit into a
# vector (8 with AVX2, 16 with AVX-512), it writes past the end of that workspace, and the process crashes or hangs:
# https://github.com/uxlfoundation/oneDNN/issues/6035, present in torch 2.13 with oneDNN 3.12.
SAFE_CHANNELS = 16


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

    def norm_relu_pool(self, x: Tensor, norm: nn.GroupNorm) -> Tensor:
        """Group norm, ReLU and 2 x 2 average pooling: [B, ch, h, w] to [B, ch, h/2, w/2]."""
        return F.avg_pool2d(F.relu(F.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps)), 2)

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
        if not _small_filters(images, layer):
            return super().convolve(images, layer)
        return functions.convolve(self._kernels, _padded(images, layer), layer.weight, layer.bias, _half())

    def norm_relu_pool(self, x: Tensor, norm: nn.GroupNorm) -> Tensor:
        if not (_each_channel_alone(norm, x) and _covered(x, norm.weight, norm.bias) and min(x.shape[2:]) >= 2):
            return super().norm_relu_pool(x, norm)
        return functions.norm_relu_pool(self._kernels, x, norm.weight, norm.bias, norm.eps)

    def weight_gradients(
        self, inputs: Tensor, slopes: Tensor, layer: nn.Conv2d | nn.Linear, ends: Sequence[int]
    ) -> Tensor:
        if isinstance(layer, nn.Linear) or not _small_filters(inputs, layer):
            return super().weight_gradients(inputs, slopes, layer, ends)
        return functions.weight_gradients(self._kernels, _padded(inputs, layer), slopes, ends, _half())


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
    return all(x is None or (x.device.type == "cpu" and x.dtype == torch.float32) for x in tensors)


def _half() -> bool:
    return torch.is_autocast_enabled("cpu")


def _small_filters(images: Tensor, layer: nn.Conv2d) -> bool:
    """Whether this is a 3 x 3 convolution of all channels, with stride 1 and a padding of 1 or more."""
    plain = (layer.kernel_size, layer.stride, layer.dilation, layer.groups) == ((3, 3), (1, 1), (1, 1), 1)
    padded = isinstance(layer.padding, tuple) and min(layer.padding) >= 1 and layer.padding_mode == "zeros"
    fitting = images.dim() == 4 and images.shape[1] == layer.in_channels
    return plain and padded and fitting and _covered(images, layer.weight, layer.bias)


def _each_channel_alone(norm: nn.GroupNorm, x: Tensor) -> bool:
    return norm.affine and x.dim() == 4 and norm.num_groups == norm.num_channels == x.shape[1]


def _padded(images: Tensor, layer: nn.Conv2d) -> Tensor:
    """Images with all of the padding but 1, which the kernel adds."""
    down, across = (int(side) - 1 for side in layer.padding)
    return F.pad(images, (across, across, down, down)) if down or across else images
