#include "plugins/jobs/curation/clip_files.hpp"

#include "kinora/error.hpp"

namespace kinora::core {

std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data) {
  std::error_code error;
  std::map<std::string, ClipFields> out;
  for (std::filesystem::recursive_directory_iterator at(data, error), end; !error && at != end; at.increment(error)) {
    const std::filesystem::path name = at->path().lexically_relative(data);
    const std::string file = name.filename().string();
    const auto dot = file.find('.');
    if (dot == 0 || dot == file.npos || at->is_directory()) continue;
    out[(name.parent_path() / file.substr(0, dot)).string()][file.substr(dot + 1)] = at->path();
  }
  if (error)
    throw Error(KINORA_IO, data.string() + ": the clips cannot be read (" + error.message() +
                               "); run the curate job again");
  return out;
}

}  // namespace kinora::core
