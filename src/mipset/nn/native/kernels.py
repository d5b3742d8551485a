"""The compiled kernels, as functions of tensors on the CPU, in torch's channels_last order.

They are float32. Instance norm with ReLU and pooling also reads and writes bfloat16 images.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mipset.nn.native.build import library


def lined_up(images: Tensor) -> Tensor:
    """Images [n, c, h, w] in the memory order of the kernels, channels_last.

    Grey images have the same bytes in both orders. Their strides are set too, or torch would return the other order.
    """
    images = images.contiguous(memory_format=torch.channels_last)
    _, c, h, w = images.shape
    return images.as_strided(images.shape, (h * w, 1, w, 1)) if c == 1 else images


def stretches(ends: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches of images between two `ends`, the first from 0 on: [3, 5] is (0, 3) and (3, 5)."""
    return list(zip([0, *ends[:-1]], ends, strict=True))


@dataclass(frozen=True)
class Block:
    """What follows the instance norm of a block: a ReLU, then average pooling of `pool` x `pool` pixels."""

    pool: int = 2
    relu: bool = True

    @property
    def covered(self) -> bool:
        """Whether there is a kernel for it."""
        return self.pool == 1 or (self.pool in (2, 4) and self.relu)

    @property
    def arguments(self) -> tuple[int, int]:
        """As the library takes them."""
        return self.pool, int(self.relu)


POOLED = Block()


class Kernels:
    """The functions of the compiled library. They record no gradients: see functions.py for that.

    `half` allows the factors of products to be rounded to bfloat16, if that is faster on this processor.
    """

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    @classmethod
    def compiled(cls) -> Kernels:
        """The kernels of this machine; compiles them at the first use. NoCompilerError if that fails."""
        return cls(library())

    def __reduce__(self) -> tuple[Callable[[], Kernels], tuple[()]]:
        return Kernels.compiled, ()  # another process opens the library of its own machine

    def convolve(
        self, images: Tensor, weights: Tensor, bias: Tensor | None, ends: Sequence[int], half: bool = False
    ) -> Tensor:
        """3 x 3, stride 1, padding 1: [n, ci, h, w] to [n, co, h, w].

        Each stretch of images between two `ends` has its own filters: [k, co, ci, 3, 3].
        """
        n, ci, h, w = images.shape
        co = weights.shape[1]
        if weights.stride()[3:] != (3, 1):
            weights = weights.contiguous()
        images, out = lined_up(images), _empty(n, co, h, w)
        steps = (ctypes.c_long(weights.stride(1)), ctypes.c_long(weights.stride(2)))
        for (start, end), weight in zip(stretches(ends), weights, strict=True):
            count = ctypes.c_long(end - start)
            part = (images[start:end], weight, *steps, bias, out[start:end], count)
            self._allocating("convolve", *part, h, w, ci, co, int(half))
        return out

    def weight_gradients(self, inputs: Tensor, slopes: Tensor, ends: Sequence[int], half: bool = False) -> Tensor:
        """The weight gradient of `convolve`, summed over each stretch of images: [k, co, ci, 3, 3]."""
        _, ci, h, w = inputs.shape
        co = slopes.shape[1]
        out = torch.empty(len(ends), co, ci, 3, 3)
        borders = (ctypes.c_long * len(ends))(*ends)
        arguments = (lined_up(inputs), lined_up(slopes), borders, len(ends))
        self._allocating("weight_gradients", *arguments, out, h, w, ci, co, int(half))
        return out

    def block(
        self, x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, kind: Block = POOLED
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Instance norm, ReLU and average pooling; and the mean and scale [n, c] of the norm."""
        n, c, h, w = x.shape
        out = _empty(n, c, h // kind.pool, w // kind.pool, x.dtype)
        mean, scale = torch.empty(n, c), torch.empty(n, c)
        arguments = (lined_up(x), gamma, beta, ctypes.c_float(epsilon), out, mean, scale)
        self._call("block_forward", *arguments, *_sizes(x), *kind.arguments, _brief(x))
        return out, mean, scale

    def block_backward(
        self, dy: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, scale: Tensor, kind: Block = POOLED
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of x [n, c, h, w], of gamma and of beta [c]."""
        n, c, h, w = x.shape
        dx, dgamma, dbeta = _empty(n, c, h, w, x.dtype), torch.empty_like(mean), torch.empty_like(mean)
        arguments = (lined_up(dy.to(x.dtype)), lined_up(x), gamma, beta, mean, scale)
        self._call("block_backward", *arguments, dx, dgamma, dbeta, *_sizes(x), *kind.arguments, _brief(x))
        return dx, dgamma.sum(dim=0), dbeta.sum(dim=0)

    def block_double_backward(
        self,
        u: Tensor,
        dy: Tensor,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mean: Tensor,
        scale: Tensor,
        kind: Block = POOLED,
    ) -> tuple[Tensor, Tensor]:
        """The gradients of <u, dx> with respect to dy and x."""
        for_dy, for_x = _empty(*dy.shape), _empty(*x.shape)
        u, dy, x = u.float(), dy.float(), x.float()
        arguments = (lined_up(u), lined_up(dy), lined_up(x), gamma, beta, mean, scale)
        self._call("block_double_backward", *arguments, for_dy, for_x, *_sizes(x), *kind.arguments)
        return for_dy, for_x

    def _call(self, name: str, *arguments: object) -> int:
        passed = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, Tensor) else a for a in arguments]
        done: int = self._library[name](*passed, torch.get_num_threads())
        return done

    def _allocating(self, name: str, *arguments: object) -> None:
        if not self._call(name, *arguments):
            raise MemoryError


def _empty(n: int, c: int, h: int, w: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty((n, c, h, w), dtype=dtype, memory_format=torch.channels_last)


def _brief(images: Tensor) -> int:
    return int(images.dtype == torch.bfloat16)


def _sizes(x: Tensor) -> tuple[ctypes.c_long, int, int, int]:
    n, c, h, w = x.shape
    return ctypes.c_long(n), h, w, c
