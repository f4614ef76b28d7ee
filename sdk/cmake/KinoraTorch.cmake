# libtorch for the CPU: the two libraries that CPU code needs, and their headers as system headers.
if(NOT EXISTS "${KINORA_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch in KINORA_TORCH_ROOT=${KINORA_TORCH_ROOT}; "
                      "in a checkout run packaging/dev.sh setup, else pip install torch==2.11.0 "
                      "and pass -DKINORA_TORCH_ROOT=<folder of that package>")
endif()
file(STRINGS "${KINORA_TORCH_ROOT}/include/torch/headeronly/version.h" _torch_version REGEX
    "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" _torch_version "${_torch_version}")
list(JOIN _torch_version "." KINORA_TORCH_VERSION)
if(NOT KINORA_TORCH_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
  message(FATAL_ERROR "cannot read the version of libtorch in ${KINORA_TORCH_ROOT}")
endif()

add_library(kinora_libtorch INTERFACE)
# Searched last: the torch package includes its own fmt, which must not hide the system's.
target_compile_options(kinora_libtorch INTERFACE "SHELL:-idirafter ${KINORA_TORCH_ROOT}/include"
                       "SHELL:-idirafter ${KINORA_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(kinora_libtorch INTERFACE "${KINORA_TORCH_ROOT}/lib/libtorch_cpu.so"
    "${KINORA_TORCH_ROOT}/lib/libc10.so")
# libtorch_cpu finds its dependencies by its run path; the linker need not see them.
target_link_options(kinora_libtorch INTERFACE -Wl,--allow-shlib-undefined)
set(KINORA_TORCH_LIB "${KINORA_TORCH_ROOT}/lib")
