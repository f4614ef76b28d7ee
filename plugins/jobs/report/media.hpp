// Files that become part of the page. Each is looked at before it is trusted to be what its name says, and
// all together are bounded, so that a page of a large run still opens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kinora::core::report {

struct Embedded {
  std::string uri;  // empty: it is not there, because of
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
