# The files that Debian's policy adds to an installation: the history of changes and the man page, compressed.
# CPack runs it on the files that it is about to pack.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(_usr "${CPACK_TEMPORARY_DIRECTORY}/usr")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/../CHANGELOG.md" "${_usr}/share/doc/kinora/changelog" COPYONLY)
  execute_process(COMMAND gzip -9nf "${_usr}/share/doc/kinora/changelog" "${_usr}/share/man/man1/kinora.1"
      COMMAND_ERROR_IS_FATAL ANY)
endif()
