# layer() turns a folder of src/ into a part of the library, uses() gives it outside libraries,
# check_layers() prepares the test that includes follow the list, program() and standalone_program()
# build on the library, file_by_file() keeps a target out of unity builds.

# layer(<folder> [SUBFOLDERS <name>...] [UNUSED <subfolder>...] [NEEDS <layer>...])
# One object library a folder: tensorgrad_<folder>, tensorgrad_<folder>_<subfolder>. An unused
# subfolder is one of another platform.
function(layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SUBFOLDERS;UNUSED;NEEDS")
  set(paths ${folder})
  foreach(subfolder IN LISTS arg_SUBFOLDERS)
    list(APPEND paths ${folder}/${subfolder})
  endforeach()

  foreach(path IN LISTS paths)
    string(REPLACE / _ name ${path})
    file(GLOB sources CONFIGURE_DEPENDS src/${path}/*.cpp)
    if(NOT sources)
      continue() # headers only, or nothing yet
    endif()
    add_library(tensorgrad_${name} OBJECT ${sources})
    target_include_directories(tensorgrad_${name} PRIVATE src include)
    foreach(library IN LISTS libraries)
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:tensorgrad_${name}>)
    endforeach()
  endforeach()

  # Everything below this layer, for check_layers().
  set(below ${arg_NEEDS})
  foreach(need IN LISTS arg_NEEDS)
    get_property(more GLOBAL PROPERTY tensorgrad_below_${need})
    list(APPEND below ${more})
  endforeach()
  list(REMOVE_DUPLICATES below)
  set_property(GLOBAL PROPERTY tensorgrad_below_${folder} "${below}")
  set_property(GLOBAL APPEND PROPERTY tensorgrad_layers ${folder})
  list(TRANSFORM arg_UNUSED PREPEND ${folder}/)
  set_property(GLOBAL APPEND PROPERTY tensorgrad_folders ${paths} ${arg_UNUSED})
endfunction()

# uses(<folder or folder/subfolder> [LIBRARIES <library>...] [HEADERS <library>...])
# What a static library has to be linked with, too, and what only our own sources see.
function(uses path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;HEADERS")
  string(REPLACE / _ name ${path})
  target_link_libraries(tensorgrad_${name} PRIVATE ${arg_LIBRARIES} ${arg_HEADERS})
  foreach(library IN LISTS libraries)
    target_link_libraries(${library} PRIVATE ${arg_LIBRARIES})
  endforeach()
endfunction()

# Fails on a source that no layer would compile; writes the list that the test `layers` reads.
function(check_layers)
  get_property(folders GLOBAL PROPERTY tensorgrad_folders)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src src/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder IN_LIST folders)
      message(FATAL_ERROR "src/${source} is in no layer: list its folder in CMakeLists.txt.")
    endif()
  endforeach()

  get_property(layers GLOBAL PROPERTY tensorgrad_layers)
  set(lines "")
  foreach(layer IN LISTS layers)
    get_property(below GLOBAL PROPERTY tensorgrad_below_${layer})
    string(APPEND lines "set(below_${layer} ${below})\n")
  endforeach()
  file(CONFIGURE OUTPUT layers.cmake CONTENT "set(layers @layers@)\n@lines@" @ONLY)
endfunction()

# program(<target> <source>...): a program that sees the public headers and nothing else.
function(program target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE tensorgrad::tensorgrad)
  if(TENSORGRAD_SANITIZE)
    target_link_libraries(${target} PRIVATE tensorgrad_sanitizers)
  endif()
endfunction()

# standalone_program(<target> <source>...): one that needs no file but itself and the C library.
function(standalone_program target)
  if(NOT BUILD_SHARED_LIBS OR TENSORGRAD_SANITIZE)
    program(${target} ${ARGN})
    return()
  endif()
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE tensorgrad_static)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
endfunction()

# file_by_file(<target>...): in presets that compile a folder as one file (CMAKE_UNITY_BUILD), these
# are not: Highway compiles their files for several vector units, or names of theirs meet std's.
function(file_by_file)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    endif()
  endforeach()
endfunction()
