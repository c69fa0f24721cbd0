# The test `layers`: cmake -DLAYERS=<list written by check_layers()> -DSOURCE=<src> -P this file.
# Reports every include in src/ that points at a layer which its own layer does not stand on.
cmake_minimum_required(VERSION 3.25)
include(${LAYERS})

set(mistakes "")
foreach(layer IN LISTS layers)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${layer}/*)
  foreach(file IN LISTS files)
    file(STRINGS ${SOURCE}/${file} includes REGEX "^ *# *include \"[a-z_]+/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE ".*include \"([a-z_]+)/.*" "\\1" target "${include}")
      if(target IN_LIST layers AND NOT target STREQUAL layer AND NOT target IN_LIST below_${layer})
        string(APPEND mistakes "src/${file}: ${include}\n  ${layer} does not stand on ${target}\n")
      endif()
    endforeach()
  endforeach()
endforeach()

if(mistakes)
  message(FATAL_ERROR "Includes against the order of the layers in CMakeLists.txt:\n${mistakes}")
endif()
