# What an embedder gets: the layers as static libraries, the public headers, and two ways to find them,
# find_package(heddle 0.1) and pkg-config heddle. The program goes along where it is built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(heddle_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
set(heddle_layers heddle_runtime heddle_balancer heddle_affinity heddle_base)
foreach(layer ${heddle_layers})
  string(REPLACE heddle_ "" export_name ${layer})
  set_target_properties(${layer} PROPERTIES EXPORT_NAME ${export_name})
endforeach()
set_target_properties(heddle_runtime PROPERTIES EXPORT_NAME heddle)

install(TARGETS ${heddle_layers} EXPORT heddle ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT heddle NAMESPACE heddle:: FILE heddle-targets.cmake DESTINATION ${heddle_cmake_dir})
if(TARGET heddle)
  install(TARGETS heddle RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Before 1.0 a minor version may break the API, so 0.1.3 serves who asked for 0.1 and 0.2 does not.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddle-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/heddle-config.cmake.in ${PROJECT_BINARY_DIR}/heddle-config.cmake
  INSTALL_DESTINATION ${heddle_cmake_dir})
install(FILES ${PROJECT_BINARY_DIR}/heddle-config.cmake ${PROJECT_BINARY_DIR}/heddle-config-version.cmake
  DESTINATION ${heddle_cmake_dir})

# Relative to the .pc file, so that an install tree may be moved and `cmake --install --prefix` be obeyed.
file(RELATIVE_PATH heddle_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(heddle_pc_libs ${heddle_layers})
list(TRANSFORM heddle_pc_libs PREPEND -l)
list(JOIN heddle_pc_libs " " heddle_pc_libs)
string(REPLACE ">=" " >= " heddle_pc_requires "${heddle_hwloc}, ${heddle_uring}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/heddle.pc.in ${PROJECT_BINARY_DIR}/heddle.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heddle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
