#!/bin/sh
# Fetches what a build for aarch64 links into folder $1 and writes $1/aarch64.cmake there, a toolchain file for cmake:
# Debian's cross compiler, its arm64 packages unpacked (nothing of the system is changed), qemu to run what was built.
#     scripts/aarch64.sh build-aarch64 && cmake -S . -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=$PWD/build-aarch64/aarch64.cmake
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
# Of all but cmocka the static libraries are linked, whose packages' names hold no version.
packages='libcmocka-dev libcmocka0 libjansson-dev libssl-dev libxxhash-dev zlib1g-dev'
root=$folder/root
if ! [ -f "$root/fetched" ]; then
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$root"
  apt() {
    apt-get -q -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$folder/lists" \
      -o Dir::Cache="$folder/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
  }
  apt update
  (cd "$folder" && apt download $packages)
  for package in "$folder"/*_arm64.deb "$folder"/*_all.deb; do
    [ ! -f "$package" ] || dpkg-deb -x "$package" "$root"
  done
  rm -rf "$folder"/*.deb "$folder/lists" "$folder/cache"
  touch "$root/fetched"
fi
libraries=$root/usr/lib/aarch64-linux-gnu
cat >"$folder/aarch64.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(ENV{PKG_CONFIG_LIBDIR} $libraries/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} $root)
set(CMAKE_C_FLAGS_INIT "-isystem $root/usr/include/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,$libraries")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$libraries)
END
