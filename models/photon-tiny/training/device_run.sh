#!/usr/bin/env bash
# One command of a training on a GPU machine: `device_run.sh rehearsal|first|second|single SECONDS [more flags of train.py]`.
# The full state stays on that machine under STATE; what is exported goes to $OUT.
set -euo pipefail
cd "$(dirname "$0")/../../.."
part=$1 seconds=$2
shift 2
STATE=${STATE:-/tmp/photon_tiny}
export TORCHINDUCTOR_CACHE_DIR=$STATE/inductor TRITON_CACHE_DIR=$STATE/triton
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
mkdir -p "$STATE"
reserve=30
half=$((seconds - reserve)) # of the schedule: what is left for training
gpus=$(nvidia-smi -L 2>/dev/null | wc -l || true)
launch=(python3)
[ "$gpus" -gt 1 ] && launch+=(-m torch.distributed.run --standalone --nproc-per-node "$gpus")
train=("${launch[@]}" models/photon-tiny/training/train.py --out "${OUT:-$STATE/out}" --seconds "$seconds" --reserve $reserve)
case $part in
rehearsal) exec "${train[@]}" --state "$STATE/rehearsal.pt" --profile --evaluate-every 40 "$@" ;;
first) exec "${train[@]}" --state "$STATE/state.pt" --total $((2 * half)) "$@" ;;
# A machine that has lost the state starts from the weights exported before, half of the schedule done.
second)
  if [ -f "$STATE/state.pt" ]; then
    exec "${train[@]}" --state "$STATE/state.pt" --resume "$STATE/state.pt" --total $((2 * half)) "$@"
  fi
  exec "${train[@]}" --state "$STATE/state.pt" --resume models/photon-tiny --elapsed "$half" --total $((2 * half)) "$@" ;;
single) exec "${train[@]}" --state "$STATE/state.pt" "$@" ;;
*) echo "unknown part $part" >&2; exit 2 ;;
esac
