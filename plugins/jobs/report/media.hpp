// Embeds files in the page. Each is checked to be of the type that its name says, and their total size is
// bounded, so that the page of a large run still opens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kinora::core::report {

struct Embedded {
  std::string uri;  // empty: missing, for `reason`
  std::string reason;
  int width = 0, height = 0;  // of a PNG
};

class Media {
 public:
  Embedded png(const std::filesystem::path& file) { return embed(file, "image/png"); }
  Embedded mp4(const std::filesystem::path& file) { return embed(file, "video/mp4"); }
  Embedded jpeg(std::string_view bytes);

 private:
  Embedded embed(const std::filesystem::path& file, std::string_view mime);
  Embedded checked(std::string_view bytes, std::string_view mime, const std::string& name);
  uint64_t left_ = uint64_t{96} << 20;
};

}  // namespace kinora::core::report
