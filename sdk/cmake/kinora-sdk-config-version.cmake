# The version of the SDK is that of the ABI: compatible if the major is equal and the requested minor is not newer than
# the headers'.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/kinora/abi/base.h" abi REGEX "define KINORA_ABI_(MAJOR|MINOR) ")
string(REGEX REPLACE "[^0-9;]" "" abi "${abi}")
list(JOIN abi "." PACKAGE_VERSION)
list(GET abi 0 major)
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION AND
   (PACKAGE_FIND_VERSION STREQUAL "" OR PACKAGE_FIND_VERSION_MAJOR EQUAL major))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
