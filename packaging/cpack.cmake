# The packages that `packaging/dev.sh package` makes: an archive that runs from any folder, and one for Debian.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_VENDOR "The Kinora authors")
set(CPACK_PACKAGE_CONTACT "The Kinora authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_RESOURCE_FILE_README "${CMAKE_SOURCE_DIR}/README.md")
string(TOLOWER "${CMAKE_SYSTEM_NAME}" _system)
set(CPACK_PACKAGE_FILE_NAME "kinora-${PROJECT_VERSION}-${_system}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

# Debian: dpkg-shlibdeps names the packages of the libraries that are linked. It looks for Kinora's own, which the
# package brings, and for libtorch, which no package of Debian has in this version, in the following folders alone.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "ffmpeg, python3-venv")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# the dynamic linker learns of libkinora
file(WRITE "${CMAKE_BINARY_DIR}/packaging/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/packaging/triggers")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Kinora curates videos, packs them into shards, trains video tokenizers and
diffusion models on them and generates video. One run file names the jobs;
plugins behind a C interface do the work. Jobs that hold tensors use the
libtorch of a Python environment.")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
set(_private "${CMAKE_BINARY_DIR}/packaging/libtorch")
file(MAKE_DIRECTORY "${_private}")
foreach(_name torch_cpu c10 torch_cuda c10_cuda)
  if(EXISTS "${KINORA_TORCH_LIB}/lib${_name}.so")
    file(CREATE_LINK "${KINORA_TORCH_LIB}/lib${_name}.so" "${_private}/lib${_name}.so" SYMBOLIC)
  endif()
endforeach()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" "${_private}")
include(CPack)
