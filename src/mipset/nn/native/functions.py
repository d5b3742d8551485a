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

from mipset.nn.native.kernels import POOLED, Block, Kernels, lined_up, stretches

LEAST_CHANNELS = 16  # of the input; with fewer, torch's own convolution is faster


def convolve(kernels: Kernels, images: Tensor, weight: Tensor, bias: Tensor | None, half: bool = False) -> Tensor:
    """Stride 1, and as much padding as keeps the resolution; twice differentiable.

    The kernels compute filters of 3 x 3 pixels. torch computes the others, in the memory order of the kernels.
    """
    result: Tensor = _Convolve.apply(kernels, images, weight, bias, half)  # type: ignore[no-untyped-call]
    return result


def weight_gradients(
    kernels: Kernels, inputs: Tensor, slopes: Tensor, ends: Sequence[int], half: bool = False, side: int = 3
) -> Tensor:
    """The weight gradients of `convolve`, summed over the images between two `ends`; differentiable in both inputs.

    `side` is that of a filter.
    """
    arguments = (kernels, inputs, slopes, list(ends), half, side)
    result: Tensor = _WeightGradients.apply(*arguments)  # type: ignore[no-untyped-call]
    return result


def norm_relu_pool(
    kernels: Kernels, x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, kind: Block = POOLED
) -> Tensor:
    """Instance norm, ReLU, average pooling; twice differentiable in x, once in gamma and beta."""
    result: Tensor = _NormReluPool.apply(kernels, x, gamma, beta, epsilon, kind)  # type: ignore[no-untyped-call]
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
            weight_gradients(ctx.kernels, images, dy, [len(images)], ctx.half, weight.shape[3])[0]
            if for_weight
            else None,
            dy.sum(dim=(0, 2, 3)) if for_bias else None,
            None,
        )


class _WeightGradients(Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, inputs: Tensor, slopes: Tensor, ends: list[int], half: bool, side: int
    ) -> Tensor:
        ctx.kernels, ctx.ends, ctx.half = kernels, ends, half
        ctx.save_for_backward(inputs, slopes)
        if inputs.shape[1] >= LEAST_CHANNELS and side == 3:
            return kernels.weight_gradients(inputs, slopes, ends, half)
        shape = (slopes.shape[1], inputs.shape[1], side, side)
        inputs, slopes = lined_up(inputs), lined_up(slopes)
        with torch.autocast("cpu", enabled=False):
            gradients = [
                conv2d_weight(inputs[i:j], shape, slopes[i:j], padding=side // 2)  # type: ignore[no-untyped-call]
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
            None,
        )


class _NormReluPool(Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, kind: Block
    ) -> Tensor:
        ctx.kernels, ctx.kind = kernels, kind
        out, mean, scale = kernels.block(x, gamma, beta, epsilon, kind)
        ctx.save_for_backward(x, gamma, beta, mean, scale)
        return out

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        dx, dgamma, dbeta = _NormReluPoolBackward.apply(  # type: ignore[no-untyped-call]
            ctx.kernels, ctx.kind, dy, *ctx.saved_tensors
        )
        return None, dx, dgamma, dbeta, None, None


class _NormReluPoolBackward(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, kind: Block, dy: Tensor, *saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.kernels, ctx.kind = kernels, kind
        ctx.save_for_backward(dy, *saved)
        x, gamma, beta, mean, scale = saved
        dx, dgamma, dbeta = kernels.block_backward(dy, x, gamma, beta, mean, scale, kind)
        ctx.mark_non_differentiable(dgamma, dbeta)
        return dx, dgamma, dbeta

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if any(ctx.needs_input_grad[4:6]):
            raise NotImplementedError(
                "Second derivatives exist for x only: gamma and beta must not require a gradient."
            )
        for_dy, for_x = ctx.kernels.block_double_backward(u, *ctx.saved_tensors, kind=ctx.kind)
        return None, None, for_dy, for_x, None, None, None, None


def _convolved(
    kernels: Kernels, images: Tensor, weights: Tensor, bias: Tensor | None, ends: Sequence[int], half: bool
) -> Tensor:
    """Each stretch of images is convolved with its own filters."""
    side = weights.shape[4]
    if images.shape[1] >= LEAST_CHANNELS and side == 3:
        return kernels.convolve(images, weights, bias, ends, half)
    images = lined_up(images)
    with torch.autocast("cpu", enabled=False):
        parts = [
            F.conv2d(images[i:j], weight, bias, padding=side // 2)
            for (i, j), weight in zip(stretches(ends), weights, strict=True)
        ]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _turned(weight: Tensor) -> Tensor:
    """The filters of the backward pass: [..., co, ci, k, k] to [..., ci, co, k, k], rotated by 180 degrees."""
    return weight.flip((-2, -1)).transpose(-4, -3)
