"""Trains photon-tiny for a given time on one or several GPUs (or, for a rehearsal, a little on the CPU) and exports it.

The learning rate follows the wall clock: warm-up, level, then a straight line to zero over the last 40% of `--total`
seconds, of which this run takes `--seconds`. `--resume` continues from a full state, or from exported weights alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent)]

from batches import Batch, join_views, make_batch  # noqa: E402
from checkpoint import INDEX, export, load_exported, load_state, save_state  # noqa: E402
from constants import constant  # noqa: E402
from decoding import evaluate  # noqa: E402
from feeder import Feeder  # noqa: E402
from library import Library, load_library  # noqa: E402
from losses import LOSS_NAMES, DenseHeads, slot_frame, text_losses, vision_losses, working_copy  # noqa: E402
from peers import Peers  # noqa: E402
from phrasebook import Phrasebook  # noqa: E402
from questions import GROUND_OBJECTS, SLOT_LENGTHS  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from photon.models.moondream import vision  # noqa: E402
from photon.models.moondream.config import MoondreamConfig  # noqa: E402
from photon.models.moondream.weights import named_tensors, random_init  # noqa: E402

WARM_UP = 300  # steps, after a cold or a weights-only start
DECAY = 0.4  # the share of the time in which the rate falls to zero
LOSS_WEIGHTS = {"coord": 1.0, "decision": 2.0, "forced": 0.02, "answer": 2.0, "caption": 1.0, "size": 0.5}
DENSE_WEIGHTS = ((0.0, 1.0), (0.7, 0.3))  # from this share of the time on
BOX_WEIGHT = 3.0
TILED_SHARE = 0.6  # of the pictures, from half of the time on
GROUNDED = sum(SLOT_LENGTHS[: len(GROUND_OBJECTS)])


@dataclass
class Training:
    """Everything that changes: parameters in float32, their average, the optimiser, how far it is."""

    parameters: dict[str, Tensor]
    heads: DenseHeads
    average: dict[str, Tensor]
    optimizer: torch.optim.Optimizer
    step: int = 0
    elapsed: float = 0.0  # seconds before this run
    cold_step: int = 0  # the step at which the optimiser knew nothing
    timers: dict[str, float] = field(default_factory=dict)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=540, help="wall time of this run, start and export included")
    parser.add_argument("--total", type=float, help="seconds of the whole schedule, by default those of this run")
    parser.add_argument(
        "--elapsed", type=float, help="seconds of the schedule already spent, by default those in the state"
    )
    parser.add_argument(
        "--resume", type=Path, help="a state file, or a folder of exported weights; nothing there: start anew"
    )
    parser.add_argument("--state", type=Path, help="where to leave the full state")
    parser.add_argument("--out", type=Path, required=True, help="folder for the exported weights and the log")
    parser.add_argument("--batch", type=int, default=320, help="pictures a step on each GPU")
    parser.add_argument("--rate", type=float, default=1.2e-3)
    parser.add_argument("--tiled", type=float, default=0.25, help="share of tiled pictures at the start")
    parser.add_argument("--backdrops", type=int, default=3000)
    parser.add_argument("--evaluate-every", type=float, default=170, help="seconds")
    parser.add_argument("--pictures", type=int, default=24, help="pictures on each canvas of an evaluation")
    parser.add_argument("--reserve", type=float, default=30, help="seconds for the last evaluation and the export")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--profile", action="store_true", help="time the parts of the first steps")
    parser.add_argument("--tokenizer", type=Path, default=HERE.parent / "tokenizer.json")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Trainer:
    """One run. `run()` trains until the time is over; then `finish()`."""

    def __init__(self, options: argparse.Namespace, started: float) -> None:
        self.o, self.started = options, started
        self.clock = 0.0  # seconds of this run, the same in all processes
        self.peers = Peers()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        config = json.loads((HERE.parent / "config.json").read_text())
        self.c = MoondreamConfig.from_dict(config)
        torch.manual_seed(options.seed)
        self.library: Library = load_library(
            HERE, device=self.device, num_backdrops=options.backdrops, seed=options.seed
        )
        tokenizer = Tokenizer.from_file(str(options.tokenizer))
        self.book = Phrasebook(tokenizer, self.library.vocabulary, config, self.device)
        self.t = self._start()
        self.peers.share([p.data for p in self._learnt()])
        # Scenes differ from run to run of one schedule, and from process to process.
        seed = options.seed + 7919 * self.t.step + 104729 * self.peers.rank
        torch.manual_seed(seed)
        self.rng = random.Random(seed)
        self.frame = slot_frame(self.c.text.prefix_attn, SLOT_LENGTHS, self.device)
        self.vision_losses, self.text_losses = vision_losses, text_losses
        if self.device == "cuda" and not options.no_compile:
            self.vision_losses, self.text_losses = torch.compile(vision_losses), torch.compile(text_losses)
        self.total = options.total or options.seconds - options.reserve
        self.clock_read = 0.0
        self.feeder = Feeder(self._make_batch, on_gpu=self.device == "cuda")
        size = sum(p.numel() for p in self.t.parameters.values())
        self.say(f"loaded in {time.time() - started:.0f} s; {size:,} parameters")

    def say(self, line: str) -> None:
        if not self.peers.is_first:
            return
        line = f"{time.time() - self.started:6.0f}s {line}"
        print(line, flush=True)
        with (self.o.out / "log.txt").open("a") as log:
            log.write(line + "\n")

    def _start(self) -> Training:
        o, resume = self.o, self.o.resume
        parameters = named_tensors(random_init(self.c, o.seed, device=self.device))
        width = self.c.vision.enc_dim
        heads = DenseHeads(
            torch.randn(self.library.num_nouns + 1, width, device=self.device) * 0.02,
            torch.zeros(4, width, device=self.device),
        )
        state: dict = {}
        if resume is not None and resume.is_file():
            state = load_state(resume, self.device)
            parameters, heads = state["parameters"], DenseHeads(**state["heads"])
        elif resume is not None and (resume / INDEX).exists():
            parameters = {name: w.to(self.device) for name, w in load_exported(resume).items()}
        for p in [*parameters.values(), heads.noun, heads.box]:
            p.requires_grad_(True)
        average = state.get("average") or {name: p.detach().clone() for name, p in parameters.items()}
        t = Training(parameters, heads, average, self._optimizer(parameters, heads))
        if state:
            t.optimizer.load_state_dict(state["optimizer"])
            t.step, t.elapsed, t.cold_step = state["step"], state["elapsed"], state["cold_step"]
        if o.elapsed is not None:
            t.elapsed = o.elapsed
        source = (
            f"state {resume}" if state else f"weights {resume}" if resume and (resume / INDEX).exists() else "nothing"
        )
        self.say(f"starting from {source}, step {t.step}, {t.elapsed:.0f} s of the schedule done")
        return t

    def _optimizer(self, parameters: dict[str, Tensor], heads: DenseHeads) -> torch.optim.Optimizer:
        def decays(name: str, p: Tensor) -> bool:
            return p.dim() == 2 and not name.endswith(("wte", "features"))

        groups = [
            {"params": [p for n, p in parameters.items() if decays(n, p)] + [heads.noun], "weight_decay": 0.05},
            {"params": [p for n, p in parameters.items() if not decays(n, p)] + [heads.box], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.o.rate, betas=(0.9, 0.95), fused=self.device == "cuda")

    @property
    def progress(self) -> float:
        """The share of the schedule that is done, 0 to 1."""
        return min(1.0, (self.t.elapsed + self.clock) / self.total)

    def _learnt(self) -> list[Tensor]:
        return [*self.t.parameters.values(), self.t.heads.noun, self.t.heads.box]

    def _make_batch(self) -> Batch:
        return make_batch(self.library, self.book, self.c.vision, self.rng, self._counts())

    def _evaluate(self, *, each: int, style: str | None = None) -> str:
        self.feeder.settle()
        return evaluate(self._averaged, self.library, self.book, self.c, each=each, style=style).line()

    def run(self) -> None:
        last_evaluation, last_line, self.first_step = time.time(), time.time(), self.t.step
        while (now := self.peers.agree(time.time() - self.started)) < self.o.seconds - self.o.reserve:
            self.clock = now
            losses = self.step()
            young = self.t.step - self.first_step in (1, 10, 50, 200)
            if young or time.time() - last_line > 20:
                last_line = time.time()
                self._report(losses)
            if self.peers.is_first and time.time() - last_evaluation > self.o.evaluate_every:
                self.say("average " + self._evaluate(each=self.o.pictures))
                last_evaluation = time.time()

    def _report(self, losses: dict[str, Tensor]) -> None:
        done = self.t.step - self.first_step
        rate = done * self.o.batch * self.peers.count / (time.time() - self.loop_started)
        named = " ".join(f"{name} {float(value):.3f}" for name, value in losses.items())
        self.say(f"step {self.t.step} {rate:.0f} pictures/s progress {self.progress:.2f} {named}")
        assert all(bool(value.isfinite()) for value in losses.values()), "a loss is not finite"

    def _counts(self) -> tuple[int, int]:
        low, high = self.o.tiled, TILED_SHARE
        tiled = (
            round(self.o.batch * (low + (high - low) * min(1.0, 2 * self.progress)) / 8) * 8
            if self.o.batch >= 16
            else self.o.batch // 2
        )
        return self.o.batch - tiled, tiled

    def _clock(self, name: str) -> None:
        if not self.o.profile or not 20 <= self.t.step - self.first_step < 40:
            return
        if self.device == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if name and self.clock_read:
            self.t.timers[name] = self.t.timers.get(name, 0.0) + now - self.clock_read
        self.clock_read = now

    def step(self) -> dict[str, Tensor]:
        t = self.t
        if t.step == self.first_step:
            self.loop_started = time.time()
        self._clock("")
        batch = self.feeder.next()
        self._clock("batch")
        loss, named = self._loss(batch)
        self._clock("forward")
        t.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._clock("backward")
        everything = self._learnt()
        self.peers.average([p.grad for p in everything if p.grad is not None])
        torch.nn.utils.clip_grad_norm_(everything, 1.0)
        for group in t.optimizer.param_groups:
            group["lr"] = self._rate()
        t.optimizer.step()
        t.step += 1
        keep = min(0.998, (1 + t.step) / (10 + t.step))
        torch._foreach_lerp_(list(t.average.values()), [p.detach() for p in t.parameters.values()], 1 - keep)
        self._clock("update")
        if self.o.profile and t.step - self.first_step == 40:
            self.say("ms a step: " + " ".join(f"{k} {v * 50:.1f}" for k, v in t.timers.items()))
        return named

    def _rate(self) -> float:
        warm = min(1.0, (self.t.step - self.t.cold_step + 1) / WARM_UP)
        falling = min(1.0, max(0.0, 1 - self.progress) / DECAY)
        return self.o.rate * warm * falling

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        t = self.t
        w = working_copy(t.parameters, self.c, self.dtype)
        flat = [batch.flat(name) for name in ("pixels", "dense_noun", "dense_box")]
        flat[0] = flat[0].to(self.dtype)
        for tensor in flat:
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
        features, noun_loss, box_loss = self.vision_losses(w, t.heads, self.c, *flat)
        image = vision.project(w.vision, *join_views(self.c.vision, features, batch.cuts))
        parts = self.text_losses(w, self.c, image, batch.slots, self.frame, GROUNDED)
        dense_weight = next(weight for start, weight in reversed(DENSE_WEIGHTS) if self.progress >= start)
        weights = constant(tuple(LOSS_WEIGHTS[name] for name in LOSS_NAMES), parts.device)
        loss = dense_weight * (noun_loss + BOX_WEIGHT * box_loss) + (weights * parts).sum()
        named = {"patch noun": noun_loss, "patch box": box_loss, **dict(zip(LOSS_NAMES, parts, strict=True))}
        return loss, {name: value.detach() for name, value in named.items()}

    def _averaged(self):
        return working_copy(self.t.average, self.c, self.dtype)

    def finish(self) -> None:
        """State and weights first, the tables after: what matters is safe when the time runs out."""
        if self.peers.is_first:
            self._finish()
        self.feeder.close()
        self.peers.close()

    def _finish(self) -> None:
        t = self.t
        t.elapsed += time.time() - self.started
        if self.o.state is not None:
            save_state(
                self.o.state,
                parameters=t.parameters,
                heads=vars(t.heads),
                average=t.average,
                optimizer=t.optimizer.state_dict(),
                step=t.step,
                elapsed=t.elapsed,
                cold_step=t.cold_step,
            )
        export(t.average, self.o.out)
        self.say(f"exported the average of the weights; step {t.step}, {t.elapsed:.0f} s in all")
        self.say(f"final, average {self._evaluate(each=self.o.pictures)}")
        self.say(f"final, average, unseen style {self._evaluate(each=self.o.pictures, style='openmoji')}")


def main() -> None:
    started = time.time()
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    sys.setswitchinterval(5e-4)  # seconds; the threads that make batches and the one that trains take turns often
    trainer = Trainer(options, started)
    trainer.run()
    trainer.finish()


if __name__ == "__main__":
    main()
