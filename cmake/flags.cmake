# How everything is compiled.

add_compile_options(-Wall -Wextra -Werror=switch)
# Results may not depend on the machine: no fast-math, and a * b + c is fused only where the code
# asks for it (GCC would otherwise do it in the AVX2 and AVX-512 variants of a kernel).
add_compile_options(-fno-fast-math -ffp-contract=off)
# Bounds checks of the standard library in builds that are for finding mistakes.
add_compile_definitions($<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlapping copies in `"text" + std::string` (GCC bug 105651).
  add_compile_options(-Wno-restrict)
  # Passing vectors by value between functions of one binary: an ABI note, not a warning.
  add_compile_options(-Wno-psabi)
  if(TENSORGRAD_SANITIZE)
    # The sanitizers' own code confuses the flow analysis.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()

# A newer compiler has new warnings; they are no reason to fail for somebody who tries the project.
if(TENSORGRAD_WERROR AND (
    (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
    (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)))
  add_compile_options(-Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These follow what was inlined: with GCC 12 the length of the source folder's name decides
    # whether `std::string(FOLDER) + "/"` "is out of bounds". Worth reading only.
    add_compile_options(-Wno-error=array-bounds -Wno-error=stringop-overflow
      -Wno-error=stringop-overread -Wno-error=maybe-uninitialized)
  endif()
endif()

if(TENSORGRAD_SANITIZE)
  add_compile_options(-fsanitize=${TENSORGRAD_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TENSORGRAD_SANITIZE})
  # Two variants of every kernel are enough to find mistakes in, and compile sooner than four.
  add_compile_definitions(TENSORGRAD_FEW_VECTOR_UNITS)
endif()

if(EMSCRIPTEN)
  add_compile_options(-fexceptions)
  add_link_options(-fexceptions -sALLOW_MEMORY_GROWTH=1)
else()
  # The library is always position-independent, and calls inside it stay inside it.
  add_compile_options(-fno-semantic-interposition)
endif()

# What is given away does not name the folder that it was built in. Everywhere, so that ccache has
# what a package needs from any other build.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Objects are the same in every build folder, but for the folder's name in debug information.
  # The sloppiness is what ccache asks for where headers are precompiled; we have no __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
