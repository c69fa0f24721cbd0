# The Dawn this project is tested with, pinned by version and hash. No package brings Dawn's C API
# but this one from npm. Included by CMakeLists.txt for the path; run as a script
# (cmake [-DONLY_CHECK=ON] -P cmake/dawn.cmake) it fetches the library unless it is there.
set(dawn_package bun-webgpu-linux-x64)
set(dawn_version 0.1.7)
set(dawn_file libwebgpu_wrapper.so)
set(dawn_package_sha512
  5043fb519744871f68b6f9197338ecb332fc65596b38300d42f825f82f3cfdb3559b10e8162ef0d5f5b31a2d6c6726a48844e39ad143ab6ff108b85b499c63ab)
set(dawn_library_sha256 3190c3777f2c07fcf6a0640833cbf5d0cde859dc53aed6d9083946d093198788)

cmake_path(SET dawn_folder NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../.deps/dawn/${dawn_version})
set(dawn_library ${dawn_folder}/${dawn_file})

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  return()
endif()

cmake_minimum_required(VERSION 3.25)

function(check algorithm file expected)
  file(${algorithm} ${file} actual)
  if(NOT actual STREQUAL expected)
    message(FATAL_ERROR "${file} is not what was pinned:\n  ${algorithm} ${actual}\n"
      "  expected ${expected}")
  endif()
endfunction()

if(EXISTS ${dawn_library} OR ONLY_CHECK)
  check(SHA256 ${dawn_library} ${dawn_library_sha256})
  return()
endif()

# Unpacked aside and moved into place at the end: an interrupted run leaves nothing half done.
set(partial ${dawn_folder}.partial)
file(REMOVE_RECURSE ${partial})
file(MAKE_DIRECTORY ${partial})
execute_process(COMMAND npm pack ${dawn_package}@${dawn_version}
  WORKING_DIRECTORY ${partial} RESULT_VARIABLE failed OUTPUT_QUIET)
if(failed)
  message(FATAL_ERROR "npm pack ${dawn_package}@${dawn_version} failed: ${failed}")
endif()
set(tarball ${partial}/${dawn_package}-${dawn_version}.tgz)
check(SHA512 ${tarball} ${dawn_package_sha512})
file(ARCHIVE_EXTRACT INPUT ${tarball} DESTINATION ${partial})
check(SHA256 ${partial}/package/${dawn_file} ${dawn_library_sha256})
file(REMOVE_RECURSE ${dawn_folder})
file(RENAME ${partial}/package ${dawn_folder})
file(REMOVE_RECURSE ${partial})
