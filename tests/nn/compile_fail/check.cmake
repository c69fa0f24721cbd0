# Compiles SOURCE with COMPILER and FLAGS and compares the outcome with the source's first line; see
# CMakeLists.txt.
file(STRINGS ${SOURCE} lines LIMIT_COUNT 1)
list(GET lines 0 first_line)
separate_arguments(flags NATIVE_COMMAND "${FLAGS}")
execute_process(
  COMMAND ${COMPILER} ${flags} -std=c++20 -Wall -Wextra -fsyntax-only
          -I${CMAKE_CURRENT_LIST_DIR}/../../../include ${SOURCE}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)

if(first_line STREQUAL "// expect success")
  if(NOT status EQUAL 0 OR output MATCHES "warning:")
    message(FATAL_ERROR "${SOURCE} should compile without warnings, but:\n${output}")
  endif()
  return()
endif()

if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE} does not begin with a line `// expect: text`.")
endif()
set(expected "${CMAKE_MATCH_1}")
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but should fail with: ${expected}")
endif()
# The sentence must be the first error, not somewhere below a page of others.
string(REGEX MATCH "[^\n]*error:[^\n]*" first_error "${output}")
string(FIND "${first_error}" "${expected}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${SOURCE} should fail with: ${expected}\nbut fails with:\n${output}")
endif()
