"""States: tensors, numbers and lists as bytes with a digest, and checks of what such bytes hold.

A change of any bit is noticed. Nothing in the bytes is executed. A digest is no signature: whoever can write the file
can write the digest too, so what was read is still checked for its shape, type and range.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from mipset.errors import ArtifactError
from mipset.nn.networks import Network

MARK = b"mipset state 2\n"  # the first bytes of every file


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """The content as bytes: a mark, a SHA-256 digest, and what torch writes."""
    written = io.BytesIO()
    torch.save(dict(content), written)
    return MARK + hashlib.sha256(written.getbuffer()).digest() + written.getvalue()


def from_bytes(written: bytes, device: torch.device | str = "cpu") -> dict[str, Any]:
    """The content of bytes that `to_bytes` made; an ArtifactError if any of them has changed."""
    digest, content = written[len(MARK) : len(MARK) + 32], written[len(MARK) + 32 :]
    if not written.startswith(MARK) or hashlib.sha256(content).digest() != digest:
        raise ArtifactError("The bytes are damaged, or another version of mipset wrote them.")
    try:
        return dict(torch.load(io.BytesIO(content), map_location=device, weights_only=True))
    except Exception as error:  # torch raises errors of any type
        raise ArtifactError("The bytes are no state.") from error


def check(holds: bool) -> None:
    """Raise an ArtifactError unless this is so."""
    if not holds:
        raise ArtifactError("A value is not possible here.")


def whole_number(value: object, possible: range) -> int:
    """The value, if it is one of these numbers."""
    check(type(value) is int and value in possible)
    return int(value)  # type: ignore[call-overload, no-any-return]


def finite_number(value: object) -> float:
    """The value, if it is a finite number."""
    check(isinstance(value, float) and math.isfinite(value))
    return float(value)  # type: ignore[arg-type]


def like(value: object, model: Tensor) -> Tensor:
    """The value, if it is a finite tensor with the shape and type of the model."""
    if not isinstance(value, Tensor):
        raise ArtifactError("A tensor is missing.")
    check(value.shape == model.shape and value.dtype == model.dtype and bool(value.isfinite().all()))
    return value


def weights_of(theta: Network) -> Tensor:
    """A copy of all weights of a network, as one vector."""
    return parameters_to_vector(theta.parameters()).detach().clone()


def network_state(theta: Network, optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """The weights of a network, and the momentum of each."""
    return {"weights": weights_of(theta), "momentum": parameters_to_vector(_momenta(theta, optimiser)).clone()}


def restore_network(theta: Network, optimiser: torch.optim.SGD, state: Mapping[str, Any]) -> None:
    """Give a network and its optimiser the state that `network_state` gave."""
    vector = weights_of(theta)
    last, momentum = like(state["weights"], vector), like(state["momentum"], vector)
    lengths = [weight.numel() for weight in theta.parameters()]
    pieces = zip(theta.parameters(), torch.split(last, lengths), torch.split(momentum, lengths), strict=True)
    with torch.no_grad():
        for weight, its_last, its_momentum in pieces:
            weight.copy_(its_last.view_as(weight))
            optimiser.state[weight]["momentum_buffer"] = torch.zeros_like(weight).copy_(its_momentum.view_as(weight))


def _momenta(theta: Network, optimiser: torch.optim.SGD) -> Iterable[Tensor]:
    for weight in theta.parameters():
        momentum = optimiser.state[weight].get("momentum_buffer")  # none before the first step, which is as zero
        yield torch.zeros_like(weight) if momentum is None else momentum
