"""Two processes of one training: what each gets from the other, against arithmetic by hand."""

from __future__ import annotations

import subprocess
import sys

import torch
import toy_library
from peers import Peers

PART = """
import sys
sys.path.insert(0, {folder!r})
import torch
from peers import Peers
peers = Peers()
mine = [torch.full((2, 3), 1.0 + 2 * peers.rank), torch.tensor([10.0 * peers.rank])]
peers.average(mine)
first = [torch.tensor([float(peers.rank)])]
peers.share(first)
clock = peers.agree(5.0 + peers.rank)
print(peers.is_first, mine[0].unique().tolist(), mine[1].tolist(), first[0].tolist(), clock, flush=True)
peers.close()
"""


def test_two_processes_average_share_and_agree() -> None:
    folder = str(toy_library.MODEL / "training")
    with subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
        + [sys.executable, "-c", PART.format(folder=folder)],
        stdout=subprocess.PIPE,
        text=True,
    ) as both:
        lines = sorted(both.communicate(timeout=120)[0].splitlines())
    assert lines == ["False [2.0] [5.0] [0.0] 5.0", "True [2.0] [5.0] [0.0] 5.0"]


def test_one_process_keeps_its_own() -> None:
    peers, mine = Peers(), [torch.tensor([3.0])]
    peers.average(mine)
    peers.share(mine)
    assert (peers.is_first, peers.agree(2.5), mine[0].item()) == (True, 2.5, 3.0)
    peers.close()
