// Embeds files in the page. Each is checked to be of the type that its name says, and their total size is
// bounded, so that the page of a large run still opens.
#pragma once
#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {

// Each call returns {"uri"}, with {"width", "height"} of a PNG, or the {"reason"} why there is none.
class Media {
 public:
  json png(const std::filesystem::path& file) { return embed(file, "image/png"); }
  json mp4(const std::filesystem::path& file) { return embed(file, "video/mp4"); }
  json jpeg(std::string_view bytes) { return checked(bytes, "image/jpeg", "the picture"); }

 private:
  json embed(const std::filesystem::path& file, std::string_view mime);
  json checked(std::string_view bytes, std::string_view mime, const std::string& name);
  uint64_t left_ = uint64_t{96} << 20;
};

}  // namespace kinora::core::report
