# SPDX-License-Identifier: BSD-2-Clause
#
# A thin layer over Meson; `make help` lists the targets.  A target first installs the
# packages that it needs (as root, on Debian) or names them.  All that it makes is in
# build/.

OBJ := build/obj
LIBS := liburnic.so libibverbs.so.1 librdmacm.so.1 libibumad.so.3
# Names by which some programs load them with dlopen()
NAMES := libibverbs.so librdmacm.so libibumad.so
# What pkg-config and CMake read, below FOUND
BUILDERS := pkgconfig/urnic.pc cmake/urnic/urnicConfig.cmake cmake/urnic/urnicConfigVersion.cmake
FOUND := lib
PRELOADED := liburnic-preload.so liburnic-map.so
MESON := env CC=gcc meson

PREFIX := /usr/local
# Completion, below share/
BASH := bash-completion/completions/urnic
ZSH := zsh/site-functions/_urnic
# The folder of the system's Wireshark for programs that capture, if it has PREFIX, too: packages name
# it.  Others run `urnic extcap --install`.
EXTCAP :=
VERSION := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)

# A space would divide a path in two, and install into the wrong place.
ifneq ($(words [$(DESTDIR)$(PREFIX)]),1)
$(error DESTDIR and PREFIX must be paths without a space: "$(DESTDIR)$(PREFIX)")
endif

.PHONY: build product tests install uninstall tarball deb rpm check check-full demo bench format clean help

build:
	@scripts/install-deps build
	@test -f $(OBJ)/build.ninja || $(MESON) setup $(OBJ)
	@$(MAKE) --no-print-directory product

product:
	@ninja -C $(OBJ) -j $$(nproc) product
	@mkdir -p build/lib
	@for l in $(LIBS); do \
		install -m 755 $(OBJ)/src/abi/$$l build/lib/.$$l && \
		mv -f build/lib/.$$l build/lib/$$l || exit 1; \
	done
	@for l in $(NAMES); do ln -sf $$(basename build/lib/$$l.*) build/lib/$$l || exit 1; done
	@for l in $(PRELOADED); do \
		install -m 755 $(OBJ)/tools/$$l build/lib/.$$l && \
		mv -f build/lib/.$$l build/lib/$$l || exit 1; \
	done
	@install -m 644 tools/tsan.supp build/lib
	@install -m 755 $(OBJ)/tools/urnic build/.urnic
	@mv -f build/.urnic build/urnic

# Builds the unit tests, and the programs that system tests and benchmarks run.
tests: build
	@meson compile -C $(OBJ) -j $$(nproc)

# The libraries get a folder of their own, so that programs use them only under `urnic run`.
# urnic itself lies among them: a copy of that folder works anywhere.
install: build
	@install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/urnic
	@install -m 755 build/urnic $(addprefix build/lib/,$(LIBS) $(PRELOADED)) \
		$(DESTDIR)$(PREFIX)/lib/urnic
	@cp -P $(addprefix build/lib/,$(NAMES) tsan.supp) $(DESTDIR)$(PREFIX)/lib/urnic
	@ln -sf ../lib/urnic/urnic $(DESTDIR)$(PREFIX)/bin/urnic
	@install -d $(addprefix $(DESTDIR)$(PREFIX)/$(FOUND)/,$(dir $(BUILDERS)))
	@for f in $(BUILDERS); do \
		sed 's/@version@/$(VERSION)/' tools/$$(basename $$f).in \
			>$(DESTDIR)$(PREFIX)/$(FOUND)/$$f || exit 1; \
	done
	@for page in docs/man/*.[1-9]; do \
		install -m 644 -D -t $(DESTDIR)$(PREFIX)/share/man/man$${page##*.} \
			$$page || exit 1; \
	done
	@install -m 644 -D tools/completion/urnic.bash $(addprefix $(DESTDIR)$(PREFIX)/share/,$(BASH))
	@install -m 644 -D tools/completion/_urnic $(addprefix $(DESTDIR)$(PREFIX)/share/,$(ZSH))
	@test -z "$(EXTCAP)" || { install -d $(DESTDIR)$(EXTCAP) && \
		ln -sf $(PREFIX)/bin/urnic $(DESTDIR)$(EXTCAP)/urnic-extcap; }

# Removes what `make install` with the same PREFIX and DESTDIR has installed.
uninstall:
	@rm -f $(DESTDIR)$(PREFIX)/bin/urnic
	@rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/urnic/,urnic $(LIBS) $(NAMES) $(PRELOADED) \
		tsan.supp)
	@for page in docs/man/*.[1-9]; do \
		rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; \
	done
	@rm -f $(addprefix $(DESTDIR)$(PREFIX)/$(FOUND)/,$(BUILDERS))
	@rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/,$(BASH) $(ZSH))
	@test -z "$(EXTCAP)" || rm -f $(DESTDIR)$(EXTCAP)/urnic-extcap
	@rmdir $(DESTDIR)$(PREFIX)/lib/urnic $(DESTDIR)$(PREFIX)/$(FOUND)/cmake/urnic 2>/dev/null || true

# The installed folder, with those libraries that it needs beside the C library: it works
# where it is unpacked, on any system whose C library is not older than this one's.
tarball: build
	@rm -rf build/tarball
	@$(MAKE) --no-print-directory -o build install DESTDIR=build/tarball PREFIX=
	@mkdir build/tarball/lib/urnic/deps
	@ldd build/urnic | awk '/isal|jansson|ncurses|tinfo/ {print $$3}' | \
		xargs cp -L -t build/tarball/lib/urnic/deps
	@tar -C build/tarball/lib --owner=0 --group=0 -czf \
		build/urnic-$(VERSION)-$$(uname -m).tar.gz urnic

# dpkg-buildpackage writes beside the tree that it builds, so that gets a copy.
deb:
	@scripts/install-deps build deb
	@rm -rf build/deb
	@scripts/copy-tree build/deb/urnic
	@cd build/deb/urnic && dpkg-buildpackage -b -us -uc

# install-deps has looked for what the build needs; Debian's rpm does not know of it.
rpm:
	@scripts/install-deps build rpm
	@rm -rf build/rpm
	@scripts/copy-tree build/rpm/urnic-$(VERSION)
	@tar -C build/rpm -czf build/rpm/urnic-$(VERSION).tar.gz urnic-$(VERSION)
	@rpmbuild -bb --nodeps --define "_topdir $(CURDIR)/build/rpm" \
		--define "_sourcedir $(CURDIR)/build/rpm" rpm/urnic.spec

check:
	@scripts/check

check-full:
	@scripts/check --full

demo:
	@scripts/demo

bench:
	@scripts/install-deps build bench
	@$(MAKE) --no-print-directory tests
	@scripts/bench

format:
	@scripts/install-deps format
	@find src fabric tests tools \( -name '*.c' -o -name '*.h' \) -print0 | \
		xargs -0 -n 50 clang-format -i

clean:
	rm -rf build

help:
	@echo 'make build       build/urnic and build/lib/*'
	@echo 'make tests       build, then all tests, which make check runs'
	@echo 'make install     build, then into PREFIX (/usr/local), below DESTDIR'
	@echo 'make uninstall   take that away again'
	@echo 'make tarball     build, then build/urnic-VERSION-MACHINE.tar.gz, for systems with a C library as new'
	@echo 'make deb         a Debian package of this system: build/deb/urnic_*.deb'
	@echo 'make rpm         an RPM: build/rpm/RPMS/*/urnic-*.rpm'
	@echo 'make demo        build, then run RDMA programs, on one host and between two namespaces'
	@echo 'make check       every test, with bounded sizes: 25 to 30 minutes'
	@echo 'make check-full  every cell of every table, and a bare machine: hours'
	@echo 'make bench       beside UCX, libfabric, sockets, memory; writes docs/performance.md'
	@echo 'make format      clang-format on all C files'
	@echo 'make clean'
