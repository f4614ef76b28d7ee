// Files of a page, which the build embeds into a program or a plugin (page/embed.cmake).
#pragma once
#include <string_view>
#include <vector>

namespace kinora {

struct PageFile {
  std::string_view path;  // "/main.js"
  const char* type;       // Content-Type
  std::string_view content;
};
// The files of this program or plugin, in the order of its CMakeLists.txt.
const std::vector<PageFile>& page_files();

}  // namespace kinora
