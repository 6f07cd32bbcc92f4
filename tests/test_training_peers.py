"""Two processes of one training: what each gets from the other, against arithmetic by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
from pathlib import Path
said = f"{{mine[0].unique().tolist()}} {{mine[1].tolist()}} {{first[0].tolist()}} {{clock}}"
(Path({out!r}) / ("first" if peers.is_first else "other")).write_text(said)
peers.close()
"""


def test_two_processes_average_share_and_agree(tmp_path: Path) -> None:
    part = PART.format(folder=str(toy_library.MODEL / "training"), out=str(tmp_path))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    subprocess.run([sys.executable, *launch, sys.executable, "-c", part], check=True, timeout=120)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "first": "[2.0] [5.0] [0.0] 5.0",
        "other": "[2.0] [5.0] [0.0] 5.0",
    }


def test_one_process_keeps_its_own() -> None:
    peers, mine = Peers(), [torch.tensor([3.0])]
    peers.average(mine)
    peers.share(mine)
    assert (peers.is_first, peers.agree(2.5), mine[0].item()) == (True, 2.5, 3.0)
    peers.close()
