# The rest of an installation, after the program, its plugins and the SDK: run files with their videos, and licences.
# share/kinora/configs: the run files of configs/, whose videos are in share/kinora/media here.
set(_share ${CMAKE_INSTALL_DATADIR}/kinora)
file(GLOB _configs CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/configs/*.toml")
foreach(_config IN LISTS _configs)
  get_filename_component(_name "${_config}" NAME)
  file(READ "${_config}" _text)
  string(REPLACE "../tests/data/" "../media/" _text "${_text}")
  set(_installed "${CMAKE_BINARY_DIR}/configs/${_name}")
  file(CONFIGURE OUTPUT "${_installed}" CONTENT "@_text@" @ONLY)
  install(FILES "${_installed}" DESTINATION ${_share}/configs)
endforeach()
set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_configs})
# Makes the weights of the detector transnetv2 from the published package (docs/operate.md).
install(FILES "${CMAKE_SOURCE_DIR}/packaging/transnetv2.py" DESTINATION ${_share})
# The videos that those run files name, and their licences.
foreach(_name film.mp4 film.json bbb_A.mp4 bbb_B.mp4 bbb_C.mp4 bbb_D.mp4 city_cc0.mp4 LICENSES.md)
  install(FILES "${CMAKE_SOURCE_DIR}/tests/data/${_name}" DESTINATION ${_share}/media)
endforeach()
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/NOTICE" "${CMAKE_SOURCE_DIR}/packaging/LIBRARIES.md"
  "${CMAKE_SOURCE_DIR}/packaging/copyright" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora)
# share/doc/kinora: the pages, in the folders that they have here, with what they link to. Links to what an installation
# has elsewhere lead there.
file(GLOB_RECURSE _pages CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/docs/*.md")
list(APPEND _pages README.md ARCHITECTURE.md BENCHMARKS.md CHANGELOG.md CONTRIBUTING.md plugins/stages/README.md)
foreach(_page IN LISTS _pages)
  get_filename_component(_folder "${_page}" DIRECTORY)
  string(REGEX REPLACE "[^/]+/?" "../" _up "${_folder}")  # from the page to the folder of README.md
  file(READ "${CMAKE_SOURCE_DIR}/${_page}" _text)
  string(REPLACE "](${_up}sdk/" "](${_up}../../kinora/sdk/" _text "${_text}")
  string(REPLACE "](${_up}configs/" "](${_up}../../kinora/configs/" _text "${_text}")
  string(REPLACE "](${_up}tests/abi/" "](${_up}../../kinora/sdk/examples/" _text "${_text}")
  string(REPLACE "](${_up}packaging/LIBRARIES.md" "](${_up}LIBRARIES.md" _text "${_text}")
  string(REPLACE "](${_up}tests/data/LICENSES.md" "](${_up}MEDIA.md" _text "${_text}")
  set(_installed "${CMAKE_BINARY_DIR}/documents/${_page}")
  file(CONFIGURE OUTPUT "${_installed}" CONTENT "@_text@" @ONLY)
  install(FILES "${_installed}" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora/${_folder})
  set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${_page}")
endforeach()
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs/pictures" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora/docs)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/packaging/slurm" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora/packaging
  FILES_MATCHING PATTERN "*.sbatch")
install(FILES "${CMAKE_SOURCE_DIR}/packaging/ray/cluster.yaml" "${CMAKE_SOURCE_DIR}/packaging/ray/kuberay.yaml"
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora/packaging/ray)
install(FILES "${CMAKE_SOURCE_DIR}/packaging/kinora-serve.service"
    "${CMAKE_SOURCE_DIR}/packaging/Containerfile" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora/packaging)
install(FILES "${CMAKE_SOURCE_DIR}/tests/data/LICENSES.md" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kinora RENAME
    MEDIA.md)
