# SPDX-License-Identifier: Apache-2.0
# make demo | test | lint. All set up .venv first; nothing is done twice.
#
#   make demo TORCH_INDEX=<address of PyTorch's CPU index>   plain `torch` is the CUDA build on many machines
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/wheel
PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := CMakeLists.txt pyproject.toml tools/build_info.py \
  $(shell find csrc torch_tpu -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.pyi')
CPP := $(shell find csrc tests/cpp -name '*.cpp' -o -name '*.h')

export HF_HUB_OFFLINE := 1

.PHONY: demo test lint cpp-tests install clean
demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed cpp-tests
	$(BIN)/pytest

lint: $(VENV)/.installed
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/layering.py

install: $(VENV)/.installed

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# torch first and by its version, or another package would bring another one.
$(VENV)/.torch: $(VENV)/.created
	$(PIP) install torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	touch $@

$(VENV)/.tools: $(VENV)/.torch
	$(PIP) install 'scikit-build-core>=0.11' 'cmake>=3.25' ninja xla-cpu-pjrt==0.0.1
	touch $@

# pip -v for the compiler's [n/m] lines; the rest of what it says is in the log.
$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	mkdir -p build
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install -v --no-build-isolation '.[demo,test]' 2>&1 | tee build/install.log \
	  | grep --line-buffered -E '^ *(\[[0-9]+/[0-9]+\]|Downloading|Building|Installing|Successfully)|error|Error|ERROR' \
	  || { tail -n 60 build/install.log; exit 1; }
	touch $@

cpp-tests: $(VENV)/.installed
	$(BIN)/cmake -DTORCH_TPU_TESTS=ON $(BUILD) > build/cpp-tests.log || { cat build/cpp-tests.log; exit 1; }
	$(BIN)/cmake --build $(BUILD) --target hlo_test pjrt_test
	$(BUILD)/hlo_test
	TORCH_TPU_PLUGIN=$$($(BIN)/python -c "import lammps_jax_pjrt_cpu as p; print(p.PLUGIN_PATH)") $(BUILD)/pjrt_test

clean:
	rm -rf $(VENV) build
