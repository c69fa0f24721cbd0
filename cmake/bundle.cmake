# ./dev package: adds to what is installed the libraries that Dawn needs and a bare system lacks,
# each with its licence, and builds the archive tensorgrad-<version>-<system>.tar.xz.

# Not in the folder where linkers look: the system's own, which its GPU driver was made for, are
# taken first. Only what loads Dawn (src/runtime/webgpu/dawn_library.cpp) looks here.
foreach(name libstdc++.so.6 libgcc_s.so.1 libvulkan.so.1)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
    OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT IS_ABSOLUTE "${file}")
    message(FATAL_ERROR "${name}, which belongs into the package, was not found.")
  endif()
  file(REAL_PATH ${file} file)
  install(FILES ${file} DESTINATION ${private_folder} RENAME ${name})
endforeach()

# licence(<name of the file> <file>)
function(licence name file)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file}, a licence that belongs into the package, was not found.")
  endif()
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${name})
endfunction()
licence(dawn.txt ${dawn_folder}/LICENSE)
licence(gpl-3.txt /usr/share/common-licenses/GPL-3) # the text that libstdc++.txt refers to
licence(highway.txt /usr/share/doc/libhwy-dev/copyright)
licence(libstdc++.txt /usr/share/doc/libstdc++6/copyright)
licence(nlohmann-json.txt /usr/share/doc/nlohmann-json3-dev/copyright)
licence(vulkan-loader.txt /usr/share/doc/libvulkan1/copyright)
licence(zlib.txt /usr/share/doc/zlib1g-dev/copyright)

string(TOLOWER tensorgrad-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR} bundle)
add_custom_target(bundle ALL
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${bundle}
  COMMAND ${CMAKE_COMMAND} --install . --strip --prefix ${bundle}
  COMMAND ${CMAKE_COMMAND} -E tar cJf ${bundle}.tar.xz ${bundle}
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
add_dependencies(bundle tensorgrad tensorgrad_cli)
