# cmake -DPROGRAM=kinora -DLIBRARY=x.so -DTIER=t -DTORCH=folder -DMANIFEST=plugin.toml -DSTAMP=file -P describe.cmake
# Updates plugin.toml from what the library's describe() functions say. A library without them keeps its own.
if(TORCH AND "$ENV{KINORA_TORCH}" STREQUAL "")
  set(ENV{KINORA_TORCH} "${TORCH}")
endif()
execute_process(COMMAND "${PROGRAM}" plugins manifest "${LIBRARY}" --tier ${TIER} --out "${STAMP}.toml"
                RESULT_VARIABLE code ERROR_VARIABLE said)
if(code EQUAL 0)
  file(COPY_FILE "${STAMP}.toml" "${MANIFEST}" ONLY_IF_DIFFERENT)
else()
  message("${MANIFEST} stays as it is: ${said}")
endif()
file(TOUCH "${STAMP}")
