// The files of page/, which the build embeds into the program.
#pragma once
#include <string_view>
#include <vector>

namespace kinora::studio {

struct PageFile {
  std::string_view path;  // "/main.js"
  const char* type;       // Content-Type
  std::string_view content;
};
const std::vector<PageFile>& page_files();

}  // namespace kinora::studio
