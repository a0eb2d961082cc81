# SPDX-License-Identifier: GPL-2.0
#
# What can be made: see `make help`.  How the module is built: see Kbuild.

# An external module must be built by the compiler of its kernel, and a Rust one
# needs the compiled metadata of the kernel's crates, which `make kdir` prepares
# where the distribution's headers lack it.
RRXE_CACHE ?= $(HOME)/.cache/rrxe
release := $(shell uname -r)
kdirs := /lib/modules/$(release)/build $(RRXE_CACHE)/kernel-$(release)/build
KDIR ?= $(patsubst %/rust/libkernel.rmeta,%,$(firstword $(wildcard $(addsuffix /rust/libkernel.rmeta,$(kdirs)))))
config = $(KDIR)/.config
kernel_compiler = $(shell sed -nE '/clang/!s/^CONFIG_CC_VERSION_TEXT="([^ ]+) .*/CC=\1/p; s/^CONFIG_CC_IS_CLANG=y/LLVM=1/p' $(config) 2>/dev/null)
compiler := $(if $(LLVM),LLVM=$(LLVM),$(if $(filter default,$(origin CC)),$(kernel_compiler),CC=$(CC)))

# Objects stay out of the sources, in a directory for each kernel.
MO ?= $(CURDIR)/build/$(shell cat $(KDIR)/include/config/kernel.release 2>/dev/null)
kbuild = +$(MAKE) -C $(KDIR) M=$(CURDIR) MO=$(MO) $(compiler)

.PHONY: all modules modules_install clean kdir help setup vm-modules vm shell test test-debug check format demo interop bench fuzz mutants check-kdir

all: modules

check-kdir:
	@scripts/check-kdir.sh "$(KDIR)"

modules: check-kdir
	@mkdir -p $(MO)
	$(kbuild) modules

modules_install: check-kdir
	$(kbuild) modules_install

kdir:
	@mkdir -p $(RRXE_CACHE)/kernel-$(release)
	scripts/prepare-kdir.sh $(release) $(RRXE_CACHE)/kernel-$(release)

clean:
	rm -rf build

# ---- the test bed: a chroot with the compiler, a VM with the stock kernel ----

setup:
	@scripts/setup.sh

vm-modules: setup
	@scripts/build-module.sh

vm: vm-modules
	@scripts/vm.sh "$(CMD)"

shell: vm-modules
	@scripts/vm.sh --shell

test:
	@scripts/run-tests.sh all

test-debug:
	@KERNEL=debug scripts/run-tests.sh vm

check:
	@scripts/run-tests.sh check

format: setup
	@scripts/in-chroot.sh scripts/check-format.sh --fix

demo: vm-modules
	@scripts/vm-suite.sh demo.sh

interop: vm-modules
	@scripts/vm-suite.sh interop.py

bench: vm-modules
	@scripts/bench.sh

fuzz: setup
	@scripts/in-chroot.sh scripts/fuzz.sh -max_total_time=$(or $(FUZZ_SECONDS),600) $(FUZZ)

mutants: setup
	@scripts/in-chroot.sh scripts/mutants.sh $(FILES)

help:
	@echo 'For the running kernel (or the one whose tree is KDIR):'
	@echo '  make [KDIR=...]       build rrxe.ko into build/<kernel release>/'
	@echo '  make modules_install  install it'
	@echo '  make kdir             prepare a kernel tree, where the headers package lacks Rust metadata'
	@echo '  make clean            remove all that was built'
	@echo
	@echo 'In a chroot and a VM that are set up on first use (Debian host, root, some minutes):'
	@echo '  make test             everything: format, lints, host tests, module, VM suites'
	@echo '  make check            the part of it that needs no VM'
	@echo '  make test-debug       the VM suites on a kernel that looks for faults (built on first use: 1 hour)'
	@echo '  make format           format the Rust sources'
	@echo '  make fuzz             fuzz all targets, or those in FUZZ, for FUZZ_SECONDS each (600)'
	@echo '  make mutants          change the protocol core in 1500 ways, or only FILES of it: does a test notice?'
	@echo '  make demo             show the module at work'
	@echo '  make interop          against rdma_rxe, in two virtual machines on a cable'
	@echo '  make vm CMD=...       run a command in a VM that has the module'
	@echo '  make shell            an interactive shell there'
	@echo '  make bench            compare with rdma_rxe (ROUNDS=3, ICOUNT=1: count instructions)'
	@echo '  make vm-modules       build rrxe.ko for the kernel of the VM'
	@echo '  make setup            only set up'
	@echo
	@echo 'Variables: KERNEL=debug (another kernel in the VM), RRXE_CACHE, RRXE_KERNEL, RRXE_SUITE,'
	@echo '  RRXE_MIRROR (scripts/common.sh); TMO, MEM, SMP, ICOUNT, PCAP ... (scripts/vm.sh);'
	@echo '  RRXE_SCENARIOS (simulator runs)'
