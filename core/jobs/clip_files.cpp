#include "core/jobs/clip_files.hpp"

#include "kinora/error.hpp"

namespace kinora::core {

std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data) {
  std::error_code error;
  std::map<std::string, ClipFields> out;
  for (std::filesystem::directory_iterator at(data, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const auto dot = name.find('.');
    if (dot == 0 || dot == name.npos) continue;
    out[name.substr(0, dot)][name.substr(dot + 1)] = at->path();
  }
  if (error)
    throw Error(KINORA_IO, data.string() + ": the clips cannot be read (" + error.message() +
                               "); run the curate job again");
  return out;
}

}  // namespace kinora::core
