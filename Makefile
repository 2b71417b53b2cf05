# Short names for commands that could be typed by hand; cargo does the work.

field = $(shell sed -n 's/^$(1) = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
VERSION := $(call field,version)
# The number in the SONAME.
ABI     := $(shell sed -n 's/^pub const RZ_ABI_VERSION: u32 = \(.*\);/\1/p' src/ffi/version.rs)

PREFIX  ?= /usr/local
# Below PREFIX: lib64, lib/x86_64-linux-gnu; or an absolute path.
LIBDIR  ?= lib
DESTDIR ?=
CARGO   ?= cargo
GO      ?= go
# Cargo features of the library besides the defaults, with commas: wgpu. Scripts and builds of wheels take them from the
# environment.
FEATURES := $(REALIZAR_FEATURES)
export REALIZAR_FEATURES := $(FEATURES)
WITH_FEATURES := $(FEATURES:%=--features %)
# What the tests of the engine are run by.
TEST_ENV ?=
CFLAGS   ?= -O2
CXXFLAGS ?= -O2

MODEL  ?=
ARGS   ?=
PROMPT ?= What is the capital of France, and what is it famous for?
export MODEL PROMPT

RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
ifeq ($(shell uname -s),Darwin)
  BUILT  := librealizar.dylib
  SHARED := librealizar.$(VERSION).dylib
  SONAME := librealizar.$(ABI).dylib
  # The frameworks of Metal, as in scripts/package_files.py.
  PRIVATE_LIBS := -lpthread -lm $(if $(findstring wgpu,$(FEATURES)),-framework Metal -framework QuartzCore -framework CoreGraphics -framework IOSurface -framework Foundation -framework CoreFoundation -lobjc)
else
  BUILT  := librealizar.so
  SHARED := librealizar.so.$(VERSION)
  SONAME := librealizar.so.$(ABI)
  PRIVATE_LIBS := -lpthread -ldl -lm
endif
LINKED := build/$(BUILT)

# The programs of this tree are built against an installation inside it, and so meet what others will meet.
STAGE := $(CURDIR)/build/stage
STRICT_C   := -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror
STRICT_CXX := -std=c++17 -Wall -Wextra -Wpedantic -Werror
LINK       := -I'$(STAGE)/include' -L'$(STAGE)/lib' -lrealizar -Wl,-rpath,'$(STAGE)/lib'
PROGRAMS   := build/minimal build/chat build/extract build/frame build/see build/serve build/example build/handles build/misuse build/no_exceptions

.PHONY: test-wgpu help demo serve build/bin/serve need-go need-python3 lib edit check stage programs page test test-rust test-programs test-go test-page test-python test-csharp test-java test-kotlin test-android test-swift test-js test-godot test-unreal test-install test-binders docs test-docs test-windows test-aarch64 test-wasm check-abi check-systems aar wheel dist dist-systems test-packages test-release release test-sanitizers bench test-gpu test-ptx test-ptx-faults gpu-kit check-kernels check-kernels-wgpu lint header install uninstall clean
.DEFAULT_GOAL := help

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1	\2/p' Makefile | while IFS='	' read -r name what; do printf '  make %-14s %s\n' "$$name" "$$what"; done

demo: ## Build, fetch a small model once, stream an answer  [PROMPT="..." MODEL=file.gguf]
	@[ -e $(RELEASE)/$(BUILT) ] || echo "building librealizar, once: some minutes"
	@$(MAKE) -s CARGO="$(CARGO) --quiet" build/chat
	@[ -n "$$MODEL" ] || MODEL=$$(scripts/fetch-model) && exec build/chat -m "$$MODEL" -p "$$PROMPT" --greedy -n 400

serve: build/bin/serve ## Answer requests of the APIs of OpenAI and Anthropic  [MODEL=file.gguf ARGS="-a :8080 -slots 16"]
	@[ -n "$$MODEL" ] || MODEL=$$(scripts/fetch-model) && exec build/bin/serve -m "$$(basename "$$MODEL" .gguf)=$$MODEL" $(ARGS)

# Go finds out itself what has changed.
build/bin/serve: need-go stage
	cd bindings/go/cmd/serve && PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' CGO_LDFLAGS="'-Wl,-rpath,$(STAGE)/lib'" $(GO) build -o '$(CURDIR)/$@' .

# Ahead of minutes of building that would be for nothing.
need-go:
	@$(GO) version >/dev/null 2>&1 || { echo "make serve needs Go 1.24 or newer, which is not here (GO=path)" >&2; exit 1; }

need-python3:
	@python3 --version >/dev/null 2>&1 || { echo "packages need python3, which is not here" >&2; exit 1; }

lib: $(LINKED) ## Build the shared and the static library, optimized  [FEATURES=wgpu]

# Its time is that of the last build, because cargo leaves a library's as it is where nothing was to be done. Its name
# has the features, so that a build with others is another one.
STAMP := $(RELEASE)/realizar$(FEATURES:%=-%).stamp
$(STAMP): Cargo.toml Cargo.lock $(wildcard build*.rs) cbindgen.toml $(shell find src kernels -type f)
	$(CARGO) build --release --lib $(WITH_FEATURES)
	@rm -f '$(RELEASE)'/realizar*.stamp
	@touch $@

# rustc hands linkers an anonymous version script of its own, beside which they take no other; so the shared library is
# linked here, from the archive.
link_so = $(CC) -shared -o $(1) -Wl,-soname,$(SONAME) -Wl,--version-script=packaging/realizar.map -Wl,--gc-sections,--strip-debug \
	    -Wl,-z,defs,-z,relro,-z,now -Wl,--whole-archive $(2) -Wl,--no-whole-archive $(LDFLAGS) $(PRIVATE_LIBS)
build/librealizar.so: $(STAMP) packaging/realizar.map include/realizar.h
	@mkdir -p build
	$(call link_so,$@,$(RELEASE)/librealizar.a)

# Behind rustc's list of symbols, which has the C functions of its crates, one of our own would only add to it.
build/librealizar.dylib: $(STAMP)
	@mkdir -p build
	$(CC) -dynamiclib -o $@ -Wl,-install_name,@rpath/$(SONAME) -Wl,-exported_symbol,'_rz_*' -Wl,-dead_strip \
	    -Wl,-force_load,$(RELEASE)/librealizar.a $(LDFLAGS) $(PRIVATE_LIBS)

edit: ## Build the library soon after a change, to try it: build/edit, for LD_LIBRARY_PATH
	$(CARGO) build --profile edit --lib $(WITH_FEATURES)
	@mkdir -p build/edit
	$(call link_so,build/edit/$(SONAME),$(dir $(RELEASE))edit/librealizar.a)

stage: $(LINKED)
	@$(call install_into,$(STAGE),lib,$(STAGE)/lib)

programs: $(PROGRAMS) ## Build the example programs in C and C++

build/minimal build/chat build/extract build/frame build/see build/serve: build/%: bindings/c/%.c include/realizar.h | stage
	$(CC) $(STRICT_C) $(CFLAGS) -o $@ $< $(LINK) $(LDFLAGS)

build/example: bindings/cpp/example.cpp
build/handles: tests/cpp/handles.cpp
build/no_exceptions: tests/cpp/no_exceptions.cpp
build/no_exceptions: CXXFLAGS += -fno-exceptions -fno-rtti
build/misuse: tests/cpp/misuse.cpp tests/cpp/second.cpp
build/example build/handles build/misuse build/no_exceptions: bindings/cpp/realizar.hpp bindings/cpp/realizar_types.hpp include/realizar.h | stage
	$(CXX) $(STRICT_CXX) $(CXXFLAGS) -o $@ $(filter %.cpp,$^) $(LINK) $(LDFLAGS)

# What a change is likely to break: layers and words, unit tests, texts, the C interface, jobs on tiny networks.
check: ## Check a change quickly: format, clippy, unit tests, some tests of each layer
	$(CARGO) fmt --check
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) fmt --check --manifest-path tests/wgsl/Cargo.toml
	$(CARGO) clippy --quiet --lib -- -D warnings
	$(CARGO) test --quiet --lib
	$(CARGO) test --quiet --test it -- layering:: words:: text:: abi::

test: test-rust test-programs test-go test-page test-python test-csharp test-java test-kotlin test-android test-swift test-js test-godot test-unreal test-install test-binders test-release test-docs ## Run every test but those of packages

test-rust: ## Run the tests of the engine
	$(TEST_ENV) CARGO="$(CARGO)" scripts/test-rust

# The kernels use no subgroups, so that widths must not matter.
test-wgpu: ## Run the tests of the portable GPU backend on a software driver with narrow and wide vectors
	for bits in 128 512; do \
	    LP_NATIVE_VECTOR_WIDTH=$$bits $(CARGO) test --features wgpu --test wgpu passes || exit 1; done

test-programs: programs ## Run the example programs on a tiny model
	tests/programs.sh build
	tests/cpp.sh '$(STAGE)' build

test-go: stage ## Run the tests of the Go packages  [MODEL=file.gguf]
	@GO=$(GO) tests/go.sh '$(STAGE)'

page: ## Bundle the page of the HTTP server from its TypeScript sources, for a commit
	@scripts/page

# 77: what is needed is not here, which was said.
test-page: stage ## Compare the bundle of the page with its sources, and test the page in a headless Chromium
	@scripts/page --check || [ $$? = 77 ]
	@GO=$(GO) tests/page.sh '$(STAGE)'

test-python: stage ## Run the tests of the Python package  [MODEL=file.gguf]
	@if ! python3 -c 'import numpy' 2>/dev/null; then \
	    echo "SKIPPED: the Python tests, because there is no python3 with numpy"; \
	else \
	    rm -rf build/python build/wheels && scripts/package build/wheels '$(STAGE)' --only wheel && \
	    python3 -m zipfile -e build/wheels/*.whl build/python && \
	    PYTHONPATH=build/python python3 -m unittest discover bindings/python/tests && \
	    rm -rf build/doctor && cp -r build/python build/doctor && \
	    PYTHONPATH=build/doctor tests/devices.sh '$(STAGE)' build/doctor/realizar python3 -m realizar doctor && \
	    tests/python-types.sh build/python; \
	fi

test-csharp: stage ## Run the tests of the C# package  [MODEL=file.gguf]
	@tests/csharp.sh '$(STAGE)/lib/$(BUILT)'

test-java: stage ## Run the tests of the Java package  [MODEL=file.gguf]
	@tests/java.sh '$(STAGE)/lib/$(BUILT)'

test-kotlin: stage ## Run the tests of the Kotlin package  [MODEL=file.gguf]
	@tests/kotlin.sh '$(STAGE)/lib/$(BUILT)'

test-android: stage ## Make the archive for Android with this machine's library, and run the Java tests on it
	@tests/android.sh '$(STAGE)/lib/$(BUILT)'

test-swift: stage ## Run the tests of the Swift package  [MODEL=file.gguf]
	@tests/swift.sh '$(STAGE)'

test-js: stage ## Run the tests of the JavaScript package for Node  [MODEL=file.gguf]
	@tests/js.sh '$(STAGE)'

test-godot: stage ## Run the tests of the node for Godot  [MODEL=file.gguf]
	@tests/godot.sh '$(STAGE)'

test-unreal: stage ## Run the tests of the component for Unreal Engine  [MODEL=file.gguf]
	@tests/unreal.sh '$(STAGE)'

test-docs: stage ## Compile and run the code of the guides
	@GO=$(GO) tests/docs.sh '$(STAGE)'

docs: ## Build the site for users in build/docs, and check its links and search
	@scripts/docs

test-install: stage ## Install into an empty folder and build programs against it
	tests/install.sh

test-binders: ## Read the header with tools by which other languages bind to C, as far as they are here
	@tests/binders.sh

test-sanitizers: ## Run tests of the engine under AddressSanitizer and ThreadSanitizer  [TESTS="--test it embed::"]
	@CARGO="$(CARGO)" scripts/test-sanitized $(TESTS)

# 77: what is needed is not here, which was said.
test-windows: ## Run the library's tests and the programs on Windows, under wine  [MODEL=file.gguf TESTS="--test it network::"]
	@scripts/for-target x86_64-pc-windows-gnu scripts/test-on $(TESTS) || [ $$? = 77 ]

test-aarch64: ## Run them on AArch64 Linux, under an emulator  [MODEL=file.gguf TESTS="--test it network::"]
	@scripts/for-target aarch64-unknown-linux-gnu scripts/test-on $(TESTS) || [ $$? = 77 ]

test-wasm: ## Run networks as WebAssembly, in node, with a model from memory
	@if ! node --version >/dev/null 2>&1; then \
	    echo "SKIPPED: WebAssembly, because there is no node"; \
	else \
	    scripts/for-target wasm32-wasip1 scripts/test-wasm || [ $$? = 77 ]; \
	fi

check-systems: ## Build for the systems that cannot be run here, and check what came out
	@scripts/dist --check

check-abi: ## Compare the header with those of earlier releases: additions alone are allowed
	$(CARGO) test --test it abi::history::

aar: ## Make the archive for Android, build/aar/realizar.aar  [ANDROID_NDK_HOME=folder JAVA_HOME=folder]
	@. tests/find-jdk.sh && find_jdk && CARGO="$(CARGO)" scripts/aar "$$jdk" build/aar || [ $$? = 77 ]

wheel: need-python3 stage ## Make a Python wheel of this machine's library in build/wheels
	@rm -rf build/wheels && scripts/package build/wheels '$(STAGE)' --only wheel

dist: need-python3 stage ## Make every package for this system, in build/dist, and check them  [FEATURES=wgpu]
	@rm -rf build/dist && scripts/package build/dist '$(STAGE)' && scripts/check-packages build/dist

dist-systems: ## Make the packages for every system that can be built for, in build/dist  [FEATURES=wgpu]
	@scripts/dist

test-packages: dist ## Make the packages again, compare, and install each in an empty place
	@tests/packages.sh build/dist '$(STAGE)'

test-release: ## Spoil a copy of this tree in each way that the checklist of releases has to find
	@tests/release.sh

release: ## Go through what a release needs, and tag it  [REALIZAR_MAINTAINER="Name <mail>" REALIZAR_SCM=address]
	@scripts/release

bench: ## Measure the speed of a model, beside the peer with a picture  [MODEL=file.gguf PEER=path/to/llama-bench]
	@mkdir -p build
	@[ -n "$$MODEL" ] || MODEL=$$(scripts/fetch-model) && $(CARGO) bench --bench model -- "$$MODEL" $(if $(PEER),--peer "$(abspath $(PEER))" | tee build/bench.txt)
	@$(if $(PEER),benches/chart.py build/bench.txt >build/bench.svg && echo "drawn in build/bench.svg")

test-gpu: ## Run the tests of the CUDA backend, on the GPU too where there is one
	$(CARGO) test --test it -- --test-threads 1 --nocapture cuda:: tiles:: recurrences::
	$(CARGO) test --test choose -- --test-threads 1 --nocapture

test-ptx: ## Run them on the PTX that nvcc makes of the kernels, on this machine, with every access checked  [TARGETS="80 90"]
	@tests/ptx/instructions && CARGO="$(CARGO)" tests/ptx/run $(TARGETS)

test-ptx-faults: ## Plant faults in the kernels, each of which that has to find
	@CARGO="$(CARGO)" tests/ptx/faults

gpu-kit: ## Gather tests and benchmarks of the CUDA backend in build/gpu, for a machine with a GPU and no compiler  [MODEL=file.gguf]
	CARGO="$(CARGO)" scripts/gpu-kit build/gpu $(if $(MODEL),"$(MODEL)")

check-kernels: ## Read the kernels' machine code: no spills, wide loads, matrix instructions  [TARGETS="80 90"]
	scripts/check-kernels $(or $(TARGETS),80 86 89 90 100 120)

# Each half is skipped with a message if its tools are missing.
check-kernels-wgpu: ## Run the Metal text of the WGSL kernels as C++, and read what Mesa compiles of them for AMD: no spills
	@CARGO="$(CARGO)" scripts/check-kernels-wgpu

lint: ## Check the formatting, run clippy, also as for systems without CUDA, read the workflows
	$(CARGO) fmt --check
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) fmt --check --manifest-path tests/wgsl/Cargo.toml
	REALIZAR_CUDA_TARGETS=none $(CARGO) clippy --lib -- -D warnings
	$(CARGO) clippy --all-targets --features wgpu -- -D warnings
	@if python3 --version >/dev/null 2>&1; then tests/ptx/faults --check; else echo "SKIPPED: the faults for kernels, because there is no python3"; fi
	@if actionlint -version >/dev/null 2>&1; then actionlint; else echo "SKIPPED: the workflows, because there is no actionlint"; fi

header: ## Regenerate include/realizar.h, its twins in bindings/ and kernels/args.cuh from the sources
	$(CARGO) check --lib

# An absolute LIBDIR below PREFIX is a relative one.
BELOW := $(patsubst $(PREFIX)/%,%,$(LIBDIR))
LIBRARIES = $(if $(filter /%,$(BELOW)),$(DESTDIR)$(BELOW),$(DESTDIR)$(PREFIX)/$(BELOW))

install: $(LINKED) ## Install  [PREFIX=/usr/local LIBDIR=lib DESTDIR=]
	@$(call install_into,$(DESTDIR)$(PREFIX),$(BELOW),$(LIBRARIES))
	@echo "installed realizar $(VERSION) in $(DESTDIR)$(PREFIX)"
	@[ "$(DESTDIR)" ] || [ "$$(uname -s)" != Linux ] || \
	    echo "where programs do not find the library: ldconfig as root, or LD_LIBRARY_PATH=$(LIBRARIES)"

uninstall: ## Delete what install has written  [PREFIX=/usr/local LIBDIR=lib DESTDIR=]
	rm -f '$(LIBRARIES)/$(SHARED)' '$(LIBRARIES)/$(SONAME)' '$(LIBRARIES)/$(BUILT)' '$(LIBRARIES)/librealizar.a' \
	    '$(LIBRARIES)/pkgconfig/realizar.pc' '$(DESTDIR)$(PREFIX)/include/realizar.h' '$(DESTDIR)$(PREFIX)/include/realizar.hpp' \
	    '$(DESTDIR)$(PREFIX)/include/realizar_types.hpp'
	rm -rf '$(LIBRARIES)/cmake/realizar' '$(DESTDIR)$(PREFIX)/share/licenses/realizar' '$(DESTDIR)$(PREFIX)/share/realizar'

clean: ## Delete everything that was built
	$(CARGO) clean
	rm -rf build

# $(1): the folder that holds include/ and share/; $(2): the library folder below it, or an absolute one; $(3): where
# that is now. The prefix is found from where a file lies, so that an installed tree can be moved, unless $(2) is
# absolute.
define install_into
set -e; lib='$(3)'; include='$(1)/include'; licenses='$(1)/share/licenses/realizar'; share='$(1)/share/realizar'; \
install -d "$$share" "$$lib/pkgconfig" "$$lib/cmake/realizar" "$$include" "$$licenses"; \
mkdir -p build; strip -S -o build/stripped $(LINKED); scripts/static-library '$(RELEASE)/librealizar.a' build/librealizar.a; \
install -C -m 755 build/stripped "$$lib/$(SHARED)"; \
ln -sf $(SHARED) "$$lib/$(SONAME)"; \
ln -sf $(SONAME) "$$lib/$(BUILT)"; \
install -C -m 644 build/librealizar.a "$$lib"; \
install -C -m 644 include/realizar.h bindings/cpp/realizar.hpp bindings/cpp/realizar_types.hpp "$$include"; \
install -C -m 644 LICENSE LICENSE-MIT LICENSE-APACHE "$$licenses"; \
install -C -m 644 packaging/valgrind.supp "$$share"; \
for file in pkgconfig/realizar.pc cmake/realizar/realizarConfig.cmake cmake/realizar/realizarConfigVersion.cmake; do \
    sed $(if $(filter /%,$(2)),-e 's|[$$]{pcfiledir}/../@UP@|$(PREFIX)|; s|[$$]{CMAKE_CURRENT_LIST_DIR}/../../@UP@|$(PREFIX)|; s|[$$]{[a-z_]*prefix}/@LIBDIR@|$(2)|') \
        -e 's|@VERSION@|$(VERSION)|; s|@LIBDIR@|$(2)|; s|@SHARED@|$(SHARED)|; s|@SONAME@|$(SONAME)|' \
        -e 's|@DESCRIPTION@|$(call field,description)|; s|@PRIVATE_LIBS@|$(PRIVATE_LIBS)|; s|@UP@|$(shell echo $(2) | sed 's|[^/][^/]*|..|g')|' \
        packaging/$$(basename $$file).in >"$$lib/$$file"; \
done
endef
