#!/usr/bin/env bash
# What results/ holds of a GPU, measured on this machine's; about four minutes on an H200.
# The python named, or the one on PATH, has perm_gpu's needs and those of its tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${1:-python3}"
mkdir -p results
failed=""

PERM_GPU_REQUIRE_GPU=1 "$python" -m pytest -q tests/gpu 2>&1 | tee results/gpu_tests.txt || failed+=" tests"
"$python" -m perm_gpu evaluate --json results/evaluate.json || failed+=" evaluate"
"$python" -m benchmarks.launch_bound --json results/launch_bound.json || failed+=" launch_bound"
"$python" -m benchmarks.sweep --json results/sweep.json || failed+=" sweep"
"$python" -m benchmarks.tables || failed+=" tables"

[ -z "$failed" ] || { echo "not as it should be:$failed"; exit 1; }
