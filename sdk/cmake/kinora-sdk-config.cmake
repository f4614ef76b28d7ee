# find_package(kinora-sdk [ABI]): kinora_add_plugin(), and the target kinora::sdk, which is the headers.
#
# Found in a source tree with -DCMAKE_PREFIX_PATH=<repository>/sdk, in an installation with its prefix. Its version is the
# ABI's. Plugins of tier stable need nothing else; for tier pinned pass -DKINORA_TORCH_ROOT=<folder of the torch package>.
# KINORA_PROGRAM is the program that writes and checks manifests, if there is one.
include(GNUInstallDirs)
enable_language(ASM)
if(NOT TARGET kinora::sdk)
  add_library(kinora::sdk INTERFACE IMPORTED)
  set_target_properties(kinora::sdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include" INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
find_program(KINORA_PROGRAM kinora DOC "The kinora that checks manifests" HINTS
  "${CMAKE_CURRENT_LIST_DIR}/../../../../bin"  # of the installation: <prefix>/share/kinora/sdk/cmake
  "${CMAKE_CURRENT_LIST_DIR}/../../build/release/bin" "${CMAKE_CURRENT_LIST_DIR}/../../build/dev/bin")
if(KINORA_TORCH_ROOT AND NOT TARGET kinora_libtorch)
  include("${CMAKE_CURRENT_LIST_DIR}/KinoraTorch.cmake")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/KinoraPlugin.cmake")
