# The environment is a folder for each pair of CUDA and TORCH, made on first use.
#
#   CUDA    CUDA major of the toolchains to install: 12 or 13
#   TORCH   pip requirement for torch; its CUDA major must be the same (docs/install.md)
#   PYTHON  the interpreter that makes the environment
CUDA ?= 12
PYTHON ?= python3
torch_for_12 := torch<2.11
torch_for_13 := torch
TORCH ?= $(torch_for_$(CUDA))

ifeq ($(filter 12 13,$(CUDA)),)
$(error CUDA is '$(CUDA)', but the toolchains exist for 12 and 13: say CUDA=12 or CUDA=13)
endif
ifneq ($(words $(TORCH)),1)
$(error TORCH is '$(TORCH)', but it must be one requirement without spaces, as in TORCH=torch==2.13.0)
endif

# `torch<2.11` as a folder name: each sign becomes a word, so different requirements stay apart.
comma := ,
slug := $(subst ==,-is-,$(TORCH))
slug := $(subst !=,-not-,$(slug))
slug := $(subst ~=,-like-,$(slug))
slug := $(subst <,-below-,$(slug))
slug := $(subst >,-above-,$(slug))
slug := $(subst =,-or-,$(slug))
slug := $(subst $(comma),-and-,$(slug))
environment := .venv/cuda$(CUDA)-$(slug)
python := $(environment)/bin/python
ready := $(environment)/ready
cuda_sources := $(wildcard raw_kernels/*.cu)

.DEFAULT_GOAL := help
.PHONY: help install test evaluate lint format clean

help:  ## this list
	@echo "make TARGET [CUDA=12|13] [TORCH=torch==2.13.0] [PYTHON=python3]"
	@awk -F ':|##  *' '/^[a-z]+:.*##/ { printf "  %-9s %s\n", $$1, $$NF }' $(MAKEFILE_LIST)

install: $(ready)  ## make the environment and install perm_gpu into it

test: $(ready)  ## run every test, with PYTEST_ARGS; GPU tests skip themselves without a GPU
	$(python) -m pytest $(PYTEST_ARGS)

evaluate: $(ready)  ## run perm-gpu evaluate, with EVALUATE_ARGS
	$(python) -m perm_gpu evaluate $(EVALUATE_ARGS)

lint: $(ready)  ## run ruff, mypy and clang-format without changing a file
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(environment)/bin/clang-format --dry-run --Werror $(cuda_sources)

format: $(ready)  ## let ruff and clang-format rewrite the files
	$(python) -m ruff check --fix .
	$(python) -m ruff format .
	$(environment)/bin/clang-format -i $(cuda_sources)

clean:  ## remove the environments, the builds and the caches of the tools
	rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One pip command names torch and the package: apart, pip would first take the newest torch,
# which may be built for the other CUDA major. perm_gpu/__init__.py holds the version.
$(ready): pyproject.toml setup.py perm_gpu/__init__.py
	$(PYTHON) -m venv $(environment)
	$(python) -m pip install '$(TORCH)' -e '.[cuda$(CUDA),test,dev]'
	touch $@
