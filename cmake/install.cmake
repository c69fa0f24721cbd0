# cmake --install: headers, library, program, and a package for find_package(tensorgrad).
include(CMakePackageConfigHelpers)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tensorgrad)
# What the library loads at run time. A folder of its own: nothing but tensorgrad is to find it.
set(private_folder ${CMAKE_INSTALL_LIBDIR}/tensorgrad)

install(TARGETS tensorgrad EXPORT tensorgradTargets)
if(TARGET tensorgrad_cli)
  install(TARGETS tensorgrad_cli)
endif()
install(DIRECTORY include/tensorgrad TYPE INCLUDE)
install(FILES LICENSE README.md TYPE DOC)
install(FILES ${dawn_library} DESTINATION ${private_folder} OPTIONAL)

install(EXPORT tensorgradTargets NAMESPACE tensorgrad:: DESTINATION ${config_folder})
configure_package_config_file(cmake/tensorgradConfig.cmake.in tensorgradConfig.cmake
  INSTALL_DESTINATION ${config_folder})
# Before 1.0, a minor version may change the interface.
write_basic_package_version_file(tensorgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tensorgradConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tensorgradConfigVersion.cmake DESTINATION ${config_folder})
