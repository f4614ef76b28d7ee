# kinora_add_plugin(NAME name [VERSION v] [TIER stable|pinned|host] [TENSORS] SOURCES ... [LIBS ...] [DEFINITIONS ...])
#
# One shared library with one exported symbol. Its manifest is in the same folder and in its section .kinora.manifest:
#   lib/kinora/plugins/NAME/{libNAME.so, plugin.toml}
# plugin.toml is in the folder that calls this. Where KINORA_PROGRAM is found, each build updates it from describe(). In
# Kinora's own build, whose program comes after its plugins, a change of describe() needs: cmake --build ... --target
# NAME.manifest Works inside Kinora's own build and, with find_package(kinora-sdk), in any other project.
set(KINORA_VERSION_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/plugin.map")
set(KINORA_SDK_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/../include")
set(KINORA_DESCRIBE "${CMAKE_CURRENT_LIST_DIR}/describe.cmake")

# _kinora_describe(TARGET NAME SOURCES ...): links the sources without a manifest too, and updates plugin.toml from that
# library, before the plugin itself is linked with it. In the caller's scope `sources` is what replaces the sources,
# `described` what plugin.toml waits for.
function(_kinora_describe target name tier manifest)
  add_library(${target}.objects OBJECT ${ARGN})
  add_library(${target}.described MODULE $<TARGET_OBJECTS:${target}.objects>)
  set_target_properties(${target}.objects PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  set_target_properties(${target}.described PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/described")
  foreach(part objects described)  # as the plugin is compiled and linked
    target_compile_options(${target}.${part} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS>)
    target_compile_definitions(${target}.${part} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
    target_include_directories(${target}.${part} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_link_libraries(${target}.${part} PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
    target_link_options(${target}.${part} PRIVATE $<TARGET_PROPERTY:${target},LINK_OPTIONS>)
  endforeach()
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${name}.described")
  set(describe "${CMAKE_COMMAND}" "-DPROGRAM=${KINORA_PROGRAM}" "-DLIBRARY=$<TARGET_FILE:${target}.described>"
      -DTIER=${tier}
      "-DTORCH=${KINORA_TORCH_ROOT}" "-DMANIFEST=${manifest}" "-DSTAMP=${stamp}" -P "${KINORA_DESCRIBE}")
  add_custom_command(OUTPUT "${stamp}" COMMAND ${describe} DEPENDS ${target}.described "${KINORA_PROGRAM}"
      "${KINORA_DESCRIBE}"
                     COMMENT "Updating plugin.toml of ${name}" VERBATIM)
  set(described "${stamp}" PARENT_SCOPE)
  set(sources $<TARGET_OBJECTS:${target}.objects> "${stamp}" PARENT_SCOPE)
endfunction()

function(kinora_add_plugin)
  cmake_parse_arguments(P "TENSORS" "NAME;VERSION;TIER" "SOURCES;LIBS;DEFINITIONS" ${ARGN})
  if(NOT P_VERSION)
    set(P_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT P_TIER)
    set(P_TIER stable)
  endif()
  if(P_TIER STREQUAL "pinned" AND NOT TARGET kinora_libtorch)
    message(FATAL_ERROR "plugin ${P_NAME} is pinned to libtorch; "
                        "pass -DKINORA_TORCH_ROOT=<folder of the torch package>, which "
                        "python3 -c 'import torch; print(torch.__path__[0])' prints")
  endif()
  set(libraries "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  if(NOT libraries)
    set(libraries "${CMAKE_BINARY_DIR}/lib")
  endif()
  set(target plugin.${P_NAME})
  set(manifest "${CMAKE_CURRENT_SOURCE_DIR}/plugin.toml")
  if(NOT EXISTS "${manifest}")  # of a new plugin: NAME.manifest writes it from the library, which includes it
    file(TOUCH "${manifest}")
  endif()
  set(section "${CMAKE_CURRENT_BINARY_DIR}/${P_NAME}.manifest.S")
  file(CONFIGURE OUTPUT "${section}" CONTENT
      ".section .kinora.manifest,\"a\"\n.incbin \"${manifest}\"\n.section .note.GNU-stack,\"\",@progbits\n")
  set(sources ${P_SOURCES})
  set(described)
  if(KINORA_PROGRAM AND NOT TARGET kinora_core AND NOT CMAKE_CROSSCOMPILING)
    _kinora_describe(${target} ${P_NAME} ${P_TIER} "${manifest}" ${P_SOURCES})
  endif()
  set_source_files_properties("${section}" PROPERTIES OBJECT_DEPENDS "${manifest};${described}")

  add_library(${target} MODULE ${sources} "${section}")
  set_target_properties(${target} PROPERTIES
    PREFIX "lib" OUTPUT_NAME "${P_NAME}" LIBRARY_OUTPUT_DIRECTORY "${libraries}/kinora/plugins/${P_NAME}"
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS "${KINORA_VERSION_SCRIPT}")
  target_include_directories(${target} PRIVATE "${KINORA_SDK_INCLUDE}")
  if(TARGET kinora_core)
    target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}")  # kernels/
    # CMake would turn a build run path that differs from the installed one into one with an empty entry: the current
    # folder.
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  else()
    target_link_libraries(${target} PRIVATE kinora::sdk)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
    # The folders of the libraries that it links, in the build and after installing: see above.
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF BUILD_WITH_INSTALL_RPATH ON
        INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
  target_compile_definitions(${target} PRIVATE KINORA_PLUGIN_NAME="${P_NAME}" KINORA_PLUGIN_VERSION="${P_VERSION}"
      ${P_DEFINITIONS})
  target_link_options(${target} PRIVATE "-Wl,--version-script=${KINORA_VERSION_SCRIPT}")
  if(NOT KINORA_SANITIZE)  # the program provides the sanitizer's run-time library
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(${target} PRIVATE ${P_LIBS})
  if(P_TIER STREQUAL "host" AND TARGET kinora::host)  # another project's
    target_link_libraries(${target} PRIVATE kinora::host)
  elseif(P_TIER STREQUAL "host")  # may use core's headers: built with one Kinora and refused on any other
    if(NOT TARGET kinora_core)
      message(FATAL_ERROR "plugin ${P_NAME} is a job: it is built with the Kinora that runs it; ${KINORA_HOST_LACKS}")
    endif()
    target_link_libraries(${target} PRIVATE kinora_host)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../../..")
    if(TARGET kinora_pch AND NOT P_TENSORS)
      target_precompile_headers(${target} REUSE_FROM kinora_pch)
    endif()
  endif()
  if(P_TIER STREQUAL "pinned" OR P_TENSORS)
    target_link_libraries(${target} PRIVATE kinora_libtorch)
    if(TARGET kinora_torch_pch)
      target_precompile_headers(${target} REUSE_FROM kinora_torch_pch)
    endif()
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different "${manifest}" "$<TARGET_FILE_DIR:${target}>/plugin.toml")
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kinora/plugins/${P_NAME})
  install(FILES "${manifest}" DESTINATION ${CMAKE_INSTALL_LIBDIR}/kinora/plugins/${P_NAME})

  if(TARGET kinora)
    add_custom_target(${P_NAME}.manifest
      COMMAND $<TARGET_FILE:kinora> plugins manifest "$<TARGET_FILE:${target}>" --tier ${P_TIER} --out "${manifest}"
      DEPENDS ${target} kinora VERBATIM)
    if(KINORA_TESTS)
      add_test(NAME manifest.${P_NAME} COMMAND kinora plugins manifest "$<TARGET_FILE:${target}>" --tier ${P_TIER}
          --check "${manifest}")
      set_tests_properties(manifest.${P_NAME} PROPERTIES LABELS unit)
      kinora_time_test(manifest.${P_NAME})
    endif()
    set_property(GLOBAL APPEND PROPERTY KINORA_PLUGINS ${target})
  elseif(KINORA_PROGRAM)
    set(describe "${KINORA_PROGRAM}" plugins manifest "$<TARGET_FILE:${target}>" --tier ${P_TIER})
    add_custom_target(${P_NAME}.manifest COMMAND ${describe} --out "${manifest}" DEPENDS ${target} VERBATIM)
    add_test(NAME manifest.${P_NAME} COMMAND ${describe} --check "${manifest}")
  endif()
endfunction()

# kinora_test_program(TARGET): built by the target `tests` only, not by the default target.
function(kinora_test_program target)
  if(TARGET tests)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(tests ${target})
  endif()
endfunction()

# kinora_without_torch(TARGET): the sanitizers' tests build and run this program; they do not instrument libtorch.
function(kinora_without_torch target)
  set_property(GLOBAL APPEND PROPERTY KINORA_PROGRAMS_WITHOUT_TORCH ${target})
endfunction()

# kinora_add_test(NAME name SOURCES ... [LIBS ...] [LABELS ...]): one GoogleTest program; tests/times.cmake has its
# running time.
function(kinora_add_test)
  cmake_parse_arguments(T "TORCH" "NAME" "SOURCES;LIBS;LABELS;DEFINITIONS" ${ARGN})
  if(NOT KINORA_TESTS)
    return()
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  if("${T_SOURCES}" MATCHES "TARGET_OBJECTS:plugin[.]")
    set(host "${CMAKE_SOURCE_DIR}/tests/support/host_of_plugins.cpp")
    target_sources(${T_NAME} PRIVATE "${host}")
    set_source_files_properties("${host}" TARGET_DIRECTORY ${T_NAME} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
        SKIP_PRECOMPILE_HEADERS ON)
  endif()
  kinora_test_program(${T_NAME})
  target_include_directories(${T_NAME} PRIVATE "${CMAKE_SOURCE_DIR}" "${KINORA_SDK_INCLUDE}")
  target_compile_definitions(${T_NAME} PRIVATE KINORA_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" ${T_DEFINITIONS})
  target_compile_options(${T_NAME} PRIVATE ${KINORA_TEST_OPTIONS})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} GTest::gtest_main GTest::gmock)
  if(T_TORCH)
    target_link_libraries(${T_NAME} PRIVATE kinora_training kinora_libtorch)
    target_precompile_headers(${T_NAME} REUSE_FROM kinora_torch_test_pch)
  else()
    if(NOT "gpu" IN_LIST T_LABELS)
      kinora_without_torch(${T_NAME})
      # Whatever reads a path asks for it. A build with sanitizers has only the plugins that its programs depend on.
      add_dependencies(${T_NAME} plugin.storage-file)
    endif()
    if(TARGET kinora_test_pch)
      target_precompile_headers(${T_NAME} REUSE_FROM kinora_test_pch)
    endif()
  endif()
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  kinora_add_cases(${T_NAME} "${T_LABELS}")
  if("gpu" IN_LIST T_LABELS)
    add_dependencies(gpu_tests ${T_NAME})
  endif()
endfunction()
