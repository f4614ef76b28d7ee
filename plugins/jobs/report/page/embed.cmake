# kinora_embed_page(SOURCES [NAMESPACE NAME] FILE...): embeds a page's files and defines page_files() of
# plugins/jobs/report/page_files.hpp. SOURCES: the variable that receives the sources to build. NAMESPACE: the function
# is kinora::NAME::page_files(), for a program of several pages.
set(KINORA_SHARED_PAGE "${CMAKE_CURRENT_LIST_DIR}")

function(kinora_embed_page sources)
  cmake_parse_arguments(PARSE_ARGV 1 page "" NAMESPACE "")
  set(prefix kinora_page)
  set(namespace kinora)
  if(page_NAMESPACE)
    set(prefix kinora_${page_NAMESPACE}_page)
    set(namespace kinora::${page_NAMESPACE})
  endif()
  set(type_html "text/html; charset=utf-8")
  set(type_svg "image/svg+xml")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  set(assembly ".section .rodata\n")
  foreach(path ${page_UNPARSED_ARGUMENTS})
    get_filename_component(file "${path}" NAME)
    get_filename_component(ending "${path}" LAST_EXT)
    string(SUBSTRING "${ending}" 1 -1 ending)
    string(MAKE_C_IDENTIFIER "${prefix}_${file}" symbol)
    string(APPEND assembly ".global ${symbol}, ${symbol}_end\n.hidden ${symbol}, ${symbol}_end\n"
        "${symbol}:\n.incbin \"${path}\"\n${symbol}_end:\n.byte 0\n")
    string(APPEND declared "extern const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND listed "      {\"/${file}\", \"${type_${ending}}\", "
        "{${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}},\n")
  endforeach()
  string(APPEND assembly ".section .note.GNU-stack,\"\",@progbits\n")
  set(built "${CMAKE_CURRENT_BINARY_DIR}/page.S" "${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp")
  file(CONFIGURE OUTPUT page.S CONTENT "${assembly}" @ONLY)
  file(CONFIGURE OUTPUT page_files.cpp @ONLY CONTENT "#include \"plugins/jobs/report/page_files.hpp\"
extern \"C\" {
${declared}}
namespace ${namespace} {
const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> files{
${listed}  };
  return files;
}
}  // namespace ${namespace}
")
  set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/page.S" PROPERTIES
      OBJECT_DEPENDS "${page_UNPARSED_ARGUMENTS}")
  set(${sources} ${built} PARENT_SCOPE)
endfunction()
