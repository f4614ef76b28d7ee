# kinora_add_plugin(NAME name [VERSION v] [TIER stable|pinned] SOURCES ... [LIBS ...] [DEFINITIONS ...])
#
# One shared library with one exported symbol, its manifest beside it and in its section .kinora.manifest:
#   lib/kinora/plugins/NAME/{libNAME.so, plugin.toml}
# plugin.toml lies in the folder that calls this. After a change of describe(): cmake --build ... --target NAME.manifest
set(KINORA_VERSION_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/plugin.map")
set(KINORA_SDK_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/../include")

function(kinora_add_plugin)
  cmake_parse_arguments(P "" "NAME;VERSION;TIER" "SOURCES;LIBS;DEFINITIONS" ${ARGN})
  if(NOT P_VERSION)
    set(P_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT P_TIER)
    set(P_TIER stable)
  endif()
  set(target plugin.${P_NAME})
  set(manifest "${CMAKE_CURRENT_SOURCE_DIR}/plugin.toml")
  set(section "${CMAKE_CURRENT_BINARY_DIR}/${P_NAME}.manifest.S")
  file(CONFIGURE OUTPUT "${section}" CONTENT ".section .kinora.manifest,\"a\"\n.incbin \"${manifest}\"\n.section .note.GNU-stack,\"\",@progbits\n")
  set_source_files_properties("${section}" PROPERTIES OBJECT_DEPENDS "${manifest}")

  add_library(${target} MODULE ${P_SOURCES} "${section}")
  set_target_properties(${target} PROPERTIES
    PREFIX "lib" OUTPUT_NAME "${P_NAME}" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/kinora/plugins/${P_NAME}"
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS "${KINORA_VERSION_SCRIPT}")
  target_include_directories(${target} PRIVATE "${KINORA_SDK_INCLUDE}" "${CMAKE_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE KINORA_PLUGIN_NAME="${P_NAME}" KINORA_PLUGIN_VERSION="${P_VERSION}" ${P_DEFINITIONS})
  target_link_options(${target} PRIVATE "-Wl,--version-script=${KINORA_VERSION_SCRIPT}")
  if(NOT KINORA_SANITIZE)  # a sanitizer's run-time library is the program's
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(${target} PRIVATE ${P_LIBS})
  if(P_TIER STREQUAL "pinned")
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
      add_test(NAME manifest.${P_NAME} COMMAND kinora plugins manifest "$<TARGET_FILE:${target}>" --tier ${P_TIER} --check "${manifest}")
      set_tests_properties(manifest.${P_NAME} PROPERTIES LABELS unit)
    endif()
    set_property(GLOBAL APPEND PROPERTY KINORA_PLUGINS ${target})
  endif()
endfunction()

# kinora_add_test(NAME name SOURCES ... [LIBS ...] [LABELS ...]): one GoogleTest program, one CTest test.
function(kinora_add_test)
  cmake_parse_arguments(T "TORCH" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;DEFINITIONS" ${ARGN})
  if(NOT KINORA_TESTS)
    return()
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  target_include_directories(${T_NAME} PRIVATE "${CMAKE_SOURCE_DIR}" "${KINORA_SDK_INCLUDE}")
  target_compile_definitions(${T_NAME} PRIVATE KINORA_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" ${T_DEFINITIONS})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} GTest::gtest_main GTest::gmock)
  if(T_TORCH)
    target_link_libraries(${T_NAME} PRIVATE kinora_torch kinora_libtorch)
    target_precompile_headers(${T_NAME} REUSE_FROM kinora_torch_pch)
  endif()
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${T_NAME} COMMAND ${T_NAME})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" SKIP_REGULAR_EXPRESSION "SKIPPED ALL"
    ENVIRONMENT "KINORA_PLUGIN_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/kinora/plugins;KINORA_ASSETS=${CMAKE_SOURCE_DIR}/.deps/assets")
endfunction()
