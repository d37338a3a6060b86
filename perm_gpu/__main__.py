"""`python -m perm_gpu` is `perm-gpu`."""

from perm_gpu.cli import app

app(prog_name="perm-gpu")
