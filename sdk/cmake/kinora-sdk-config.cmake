# find_package(kinora-sdk [ABI]): provides kinora_add_plugin(), and the target kinora::sdk, which is the headers.
#
# For a source tree pass -DCMAKE_PREFIX_PATH=<repository>/sdk, for an installation its prefix. Its version is the ABI's.
# Plugins of tier stable need nothing else. Those of tier pinned need the libtorch that Kinora runs with: an
# installation finds it where the program does (torch_root.cmake), otherwise pass -DKINORA_TORCH_ROOT=<folder of the
# torch package>. They may link kinora::kernels of an installation. Jobs (tier host) are built with the Kinora that runs
# them: its libkinora, nlohmann_json and fmt. KINORA_PROGRAM is the program that writes and checks manifests, if it is
# found.
include(GNUInstallDirs)
enable_language(ASM)
if(NOT TARGET kinora::sdk)
  add_library(kinora::sdk INTERFACE IMPORTED)
  set_target_properties(kinora::sdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include" INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:-fvisibility=hidden>")  # as the headers' own classes are
endif()
find_program(KINORA_PROGRAM kinora DOC "The kinora that checks manifests" HINTS
  "${CMAKE_CURRENT_LIST_DIR}/../../../../bin"  # for an installation: <prefix>/share/kinora/sdk/cmake
  "${CMAKE_CURRENT_LIST_DIR}/../../build/release/bin" "${CMAKE_CURRENT_LIST_DIR}/../../build/dev/bin")
# Jobs (tier host) also use the headers of core and host and link libkinora and libkinora_host, which are next to the
# program's folder.
set(KINORA_HOST_LACKS "pass -DKINORA_PROGRAM=<path of that kinora>")  # unless the target kinora::host is there
set(_host "${CMAKE_CURRENT_LIST_DIR}/../host")  # of an installation
if(NOT EXISTS "${_host}")
  set(_host "${CMAKE_CURRENT_LIST_DIR}/../..")
endif()
if(KINORA_PROGRAM AND EXISTS "${_host}/core/run/job_plugin.hpp" AND NOT TARGET kinora::host)
  get_filename_component(_bin "${KINORA_PROGRAM}" REALPATH)
  get_filename_component(_bin "${_bin}" DIRECTORY)
  foreach(_name KINORA KINORA_HOST)
    string(TOLOWER "${_name}" _file)
    find_library(${_name}_LIBRARY ${_file} HINTS "${_bin}/../lib" NO_DEFAULT_PATH)
    file(GLOB _versioned "${_bin}/../lib/lib${_file}.so.[0-9]*")
    if(NOT ${_name}_LIBRARY AND _versioned)  # a wheel has no symbolic links
      list(GET _versioned 0 ${_name}_LIBRARY)
    endif()
  endforeach()
  find_package(fmt QUIET)
  find_package(nlohmann_json QUIET)
  if(NOT KINORA_LIBRARY OR NOT KINORA_HOST_LIBRARY)
    set(KINORA_HOST_LACKS "libkinora.so or libkinora_host.so is missing in ${_bin}/../lib; ${KINORA_HOST_LACKS}")
  elseif(NOT fmt_FOUND)
    set(KINORA_HOST_LACKS
        "it needs fmt's CMake package, which is not found; install libfmt-dev, or add its prefix to CMAKE_PREFIX_PATH")
  elseif(NOT nlohmann_json_FOUND)
    string(CONCAT KINORA_HOST_LACKS
        "it needs nlohmann_json's CMake package, which is not found; "
        "install nlohmann-json3-dev, or add its prefix to CMAKE_PREFIX_PATH")
  else()
    add_library(kinora::host INTERFACE IMPORTED)
    set_target_properties(kinora::host PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_host}"
      INTERFACE_LINK_LIBRARIES "${KINORA_HOST_LIBRARY};${KINORA_LIBRARY};fmt::fmt;nlohmann_json::nlohmann_json")
  endif()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/torch_root.cmake" OPTIONAL)
if(KINORA_TORCH_ROOT AND NOT TARGET kinora_libtorch)
  include("${CMAKE_CURRENT_LIST_DIR}/KinoraTorch.cmake")
endif()
set(_kernels "${CMAKE_CURRENT_LIST_DIR}/../lib/libkinora_kernels_torch.a"
    "${CMAKE_CURRENT_LIST_DIR}/../lib/libkinora_kernels.a")
list(GET _kernels 0 _first)
if(TARGET kinora_libtorch AND EXISTS "${_first}" AND NOT TARGET kinora::kernels)
  add_library(kinora::kernels INTERFACE IMPORTED)
  set_target_properties(kinora::kernels PROPERTIES INTERFACE_LINK_LIBRARIES
      "${_kernels};kinora_libtorch;${KINORA_TORCH_LIB}/libgomp.so.1")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/KinoraPlugin.cmake")
