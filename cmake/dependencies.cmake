# What the library is built with. Highway and nlohmann-json are headers that only our sources see;
# users of the library need neither.
find_package(Threads REQUIRED)

# headers(<target> <folder>/<header> <package of Debian>)
function(headers target header package)
  find_path(${target}_folder ${header} PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH)
  if(NOT ${target}_folder)
    message(FATAL_ERROR "${header} was not found. Debian's package of it is ${package}.")
  endif()
  add_library(${target} INTERFACE)
  if(EMSCRIPTEN)
    # /usr/include itself is full of what is this system's only.
    cmake_path(GET header PARENT_PATH folder)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/headers)
    file(CREATE_LINK ${${target}_folder}/${folder} ${PROJECT_BINARY_DIR}/headers/${folder} SYMBOLIC)
    target_include_directories(${target} SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/headers)
    return()
  endif()
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_folder})
endfunction()

headers(tensorgrad_hwy hwy/highway.h libhwy-dev)
headers(tensorgrad_json nlohmann/json.hpp nlohmann-json3-dev)

set(dnnl_headers "")
set(dnnl_library "")
if(TENSORGRAD_DNNL)
  # Not find_package(dnnl): its config file insists on OpenCL, which we neither use nor link.
  headers(tensorgrad_dnnl dnnl.hpp libdnnl-dev)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  set(dnnl_headers tensorgrad_dnnl)
  set(dnnl_library ${DNNL_LIBRARY})
  set_property(SOURCE src/runtime/cpu/gemm_dnnl.cpp APPEND PROPERTY
    COMPILE_DEFINITIONS TENSORGRAD_WITH_DNNL)
endif()
