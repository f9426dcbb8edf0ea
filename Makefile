# A thin front on CMake.
PREFIX ?= /usr/local
BUILD ?= build
CMAKE ?= cmake
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
MAKEFLAGS += --no-print-directory

all:
	@$(CMAKE) -S . -B $(BUILD) -G "Unix Makefiles"
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

demo:
	@./demo.sh

# PyTorch, TensorFlow and MXNet, for `ronde bench step --peers`.
peers:
	@scripts/peers.sh peers

check:
	@./check.sh

install:
	@$(CMAKE) -S . -B $(BUILD) -G "Unix Makefiles" -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target product
	@DESTDIR=$(DESTDIR) $(CMAKE) --install $(BUILD)

clean:
	rm -rf build build-address build-thread

.PHONY: all demo peers check install clean
