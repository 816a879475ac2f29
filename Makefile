# SPDX-License-Identifier: BSD-2-Clause
#
# A thin layer over Meson: each target installs what is missing (root, Debian)
# or names it, and does its work; `make help` lists them.  Everything that is
# made lies in build/.

OBJ := build/obj
LIBS := libibverbs.so.1 librdmacm.so.1
MESON := env CC=gcc meson

.PHONY: build check check-full demo bench format clean help

build:
	@scripts/install-deps build
	@test -f $(OBJ)/build.ninja || $(MESON) setup $(OBJ)
	@meson compile -C $(OBJ) -j $$(nproc)
	@mkdir -p build/lib
	@for l in $(LIBS); do \
		install -m 755 $(OBJ)/src/abi/$$l build/lib/.$$l && \
		mv -f build/lib/.$$l build/lib/$$l || exit 1; \
	done
	@install -m 755 $(OBJ)/tools/liburnic-preload.so build/lib/.preload
	@mv -f build/lib/.preload build/lib/liburnic-preload.so
	@install -m 755 $(OBJ)/tools/urnic build/.urnic
	@mv -f build/.urnic build/urnic

check:
	@scripts/check

check-full:
	@scripts/check --full

demo:
	@scripts/demo

bench:
	@scripts/install-deps build bench
	@$(MAKE) --no-print-directory build
	@scripts/bench

format:
	@scripts/install-deps format
	@{ git diff --name-only --diff-filter=d HEAD 2>/dev/null; \
		git ls-files --others --exclude-standard; } | \
		grep '\.[ch]$$' | sort -u | xargs -r clang-format -i

clean:
	rm -rf build

help:
	@echo 'make build       build/urnic and build/lib/*'
	@echo 'make demo        build, then run RDMA programs, on one host and between two'
	@echo 'make check       every test, with bounded sizes: about 20 minutes'
	@echo 'make check-full  every cell of every table, and a bare machine: hours'
	@echo 'make bench       speeds, as ratios; writes docs/performance.md'
	@echo 'make format      clang-format on what git says you changed'
	@echo 'make clean'
