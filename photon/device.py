"""The one place that knows whether there is a GPU: device, dtype, streams, events, pinned memory.

On the CPU a stream and an event are no-ops and pinned memory is memory, so that the same code runs in order on both.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from photon.errors import ConfigError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Device:
    """`name` is "cpu" or "cuda:N"; `dtype` is that of weights and KV."""

    name: str
    dtype: torch.dtype

    @property
    def is_cuda(self) -> bool:
        return self.name != "cpu"

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Host memory that a copy can leave while the CPU goes on."""
        import torch

        return torch.zeros(shape, dtype=dtype, pin_memory=self.is_cuda)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeroed device memory, allocated once and for good."""
        import torch

        return torch.zeros(shape, dtype=dtype, device=self.name)

    def new_stream(self) -> Stream:
        import torch

        return Stream(torch.cuda.Stream(self.name) if self.is_cuda else None)

    def new_event(self) -> Event:
        import torch

        return Event(torch.cuda.Event() if self.is_cuda else None)

    def synchronize(self) -> None:
        """Block the CPU until the device has done all that it was given."""
        import torch

        if self.is_cuda:
            torch.cuda.synchronize(self.name)

    def describe(self) -> str:
        """For people, as "NVIDIA H200 (cuda:0), bfloat16"."""
        import torch

        dtype = str(self.dtype).removeprefix("torch.")
        if not self.is_cuda:
            return f"cpu ({torch.get_num_threads()} threads), {dtype}"
        return f"{torch.cuda.get_device_name(self.name)} ({self.name}), {dtype}"


@dataclass(frozen=True)
class Stream:
    """A queue of device work; None is the CPU, where all is in order already."""

    cuda: Any

    def use(self) -> AbstractContextManager[Any]:
        """Work started inside goes to this stream."""
        import torch

        return nullcontext() if self.cuda is None else torch.cuda.stream(self.cuda)

    def wait(self, event: Event) -> None:
        """What follows on this stream starts after the event."""
        if self.cuda is not None:
            self.cuda.wait_event(event.cuda)

    def record(self, event: Event) -> None:
        """The event happens when all that this stream holds now is done."""
        if self.cuda is not None:
            event.cuda.record(self.cuda)


@dataclass(frozen=True)
class Event:
    cuda: Any

    def synchronize(self) -> None:
        """Block the CPU until the event has happened."""
        if self.cuda is not None:
            self.cuda.synchronize()


def choose_device(name: str, dtype: str) -> Device:
    """The device and dtype of an engine. ConfigError when CUDA was asked for and is absent."""
    import torch

    count = torch.cuda.device_count()
    if name == "auto":
        name = "cuda:0" if count else "cpu"
    elif name == "cuda":
        name = "cuda:0"
    if name != "cpu" and int(name.removeprefix("cuda:")) >= count:
        raise ConfigError(
            f"device {name!r} was asked for, but PyTorch {torch.__version__} sees {count} CUDA devices: "
            f"{'device auto or cpu' if not count else f'cuda:0 to cuda:{count - 1}'} would be right"
        )
    if dtype == "auto":
        dtype = "float32" if name == "cpu" else "bfloat16"
    return Device(name, getattr(torch, dtype))
