"""The kernels as differentiable functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.grad import conv2d_weight

from mipset.nn.native.kernels import Kernels, lined_up, stretches

LEAST_CHANNELS = 16  # of the input; with fewer, torch's own convolution is faster


def convolve(kernels: Kernels, images: Tensor, weight: Tensor, bias: Tensor | None, half: bool = False) -> Tensor:
    """3 x 3, stride 1, padding 1; twice differentiable."""
    result: Tensor = _Convolve.apply(kernels, images, weight, bias, half)  # type: ignore[no-untyped-call]
    return result


def weight_gradients(
    kernels: Kernels, inputs: Tensor, slopes: Tensor, ends: Sequence[int], half: bool = False
) -> Tensor:
    """The weight gradients of `convolve`, summed over the images between two `ends`; differentiable in both inputs."""
    result: Tensor = _WeightGradients.apply(kernels, inputs, slopes, list(ends), half)  # type: ignore[no-untyped-call]
    return result


def norm_relu_pool(kernels: Kernels, x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Instance norm, ReLU, 2 x 2 average pooling; twice differentiable in x, once in gamma and beta."""
    result: Tensor = _NormReluPool.apply(kernels, x, gamma, beta, epsilon)  # type: ignore[no-untyped-call]
    return result


class _Convolve(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, images: Tensor, weight: Tensor, bias: Tensor | None, half: bool) -> Tensor:
        ctx.kernels, ctx.half = kernels, half
        ctx.save_for_backward(images, weight)
        return _convolved(kernels, images, weight[None], bias, [len(images)], half)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        _, for_images, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            None,
            convolve(ctx.kernels, dy, _turned(weight), None, ctx.half) if for_images else None,
            weight_gradients(ctx.kernels, images, dy, [len(images)], ctx.half)[0] if for_weight else None,
            dy.sum(dim=(0, 2, 3)) if for_bias else None,
            None,
        )


class _WeightGradients(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, inputs: Tensor, slopes: Tensor, ends: list[int], half: bool) -> Tensor:
        ctx.kernels, ctx.ends, ctx.half = kernels, ends, half
        ctx.save_for_backward(inputs, slopes)
        if inputs.shape[1] >= LEAST_CHANNELS:
            return kernels.weight_gradients(inputs, slopes, ends, half)
        shape = (slopes.shape[1], inputs.shape[1], 3, 3)
        inputs, slopes = lined_up(inputs), lined_up(slopes)
        with torch.autocast("cpu", enabled=False):
            gradients = [
                conv2d_weight(inputs[i:j], shape, slopes[i:j], padding=1)  # type: ignore[no-untyped-call]
                for i, j in stretches(ends)
            ]
        return torch.stack(gradients)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, slopes = ctx.saved_tensors
        _, for_inputs, for_slopes, *_ = ctx.needs_input_grad
        return (
            None,
            _convolved(ctx.kernels, slopes, _turned(gradients), None, ctx.ends, ctx.half) if for_inputs else None,
            _convolved(ctx.kernels, inputs, gradients, None, ctx.ends, ctx.half) if for_slopes else None,
            None,
            None,
        )


class _NormReluPool(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
        ctx.kernels = kernels
        out, mean, scale = kernels.block(x, gamma, beta, epsilon)
        ctx.save_for_backward(x, gamma, beta, mean, scale)
        return out

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        dx, dgamma, dbeta = _NormReluPoolBackward.apply(ctx.kernels, dy, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return None, dx, dgamma, dbeta, None


class _NormReluPoolBackward(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, dy: Tensor, *saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.kernels = kernels
        ctx.save_for_backward(dy, *saved)
        dx, dgamma, dbeta = kernels.block_backward(dy, *saved)
        ctx.mark_non_differentiable(dgamma, dbeta)
        return dx, dgamma, dbeta

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if any(ctx.needs_input_grad[3:5]):
            raise NotImplementedError(
                "Second derivatives exist for x only: gamma and beta must not require a gradient."
            )
        for_dy, for_x = ctx.kernels.block_double_backward(u, *ctx.saved_tensors)
        return None, for_dy, for_x, None, None, None, None


def _convolved(
    kernels: Kernels, images: Tensor, weights: Tensor, bias: Tensor | None, ends: Sequence[int], half: bool
) -> Tensor:
    """Each stretch of images is convolved with its own filters."""
    if images.shape[1] >= LEAST_CHANNELS:
        return kernels.convolve(images, weights, bias, ends, half)
    images = lined_up(images)
    with torch.autocast("cpu", enabled=False):
        parts = [
            F.conv2d(images[i:j], weight, bias, padding=1)
            for (i, j), weight in zip(stretches(ends), weights, strict=True)
        ]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _turned(weight: Tensor) -> Tensor:
    """The filters of the backward pass: [..., co, ci, 3, 3] to [..., ci, co, 3, 3], rotated by 180 degrees."""
    return weight.flip((-2, -1)).transpose(-4, -3)
