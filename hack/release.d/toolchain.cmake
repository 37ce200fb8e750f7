# SPDX-License-Identifier: Apache-2.0
# Builds against the sysroot of hack/release.d/sysroot.sh, for this machine's architecture or another one. Given by hack/release:
# MILLRACE_TRIPLET (aarch64-linux-gnu), MILLRACE_SYSROOT, and MILLRACE_EMULATOR for an architecture that this machine cannot run.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MILLRACE_TRIPLET MILLRACE_SYSROOT MILLRACE_EMULATOR)
if(MILLRACE_EMULATOR) # else it is no cross build for CMake, and what it makes runs as it is
  string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${MILLRACE_TRIPLET})
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MILLRACE_EMULATOR} -L ${MILLRACE_SYSROOT})
endif()
set(CMAKE_C_COMPILER ${MILLRACE_TRIPLET}-gcc)
set(CMAKE_STRIP ${MILLRACE_TRIPLET}-strip)
set(CMAKE_SYSROOT ${MILLRACE_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE ${MILLRACE_TRIPLET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MILLRACE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${MILLRACE_SYSROOT}/usr/lib/${MILLRACE_TRIPLET}/pkgconfig:${MILLRACE_SYSROOT}/usr/share/pkgconfig)
# What is built is the same wherever the tree and the sysroot lie; what the linker takes from archives is noted in PROGRAM.map.
set(CMAKE_C_FLAGS_INIT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${MILLRACE_SYSROOT}=")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-Map=%.map")
