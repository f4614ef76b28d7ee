#include "plugins/jobs/report/media.hpp"

#include "plugins/jobs/report/html.hpp"
#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {
namespace {

constexpr uint64_t kLargest = uint64_t{32} << 20;  // of one file
constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xFF\xD8\xFF";

bool is_what_it_says(std::string_view bytes, std::string_view mime) {
  if (mime == "image/png") return bytes.starts_with(kPng) && bytes.size() > 24;
  if (mime == "image/jpeg") return bytes.starts_with(kJpeg);
  return bytes.size() > 12 && bytes.substr(4, 4) == "ftyp";
}

int big_endian(std::string_view four) {
  uint32_t v = 0;
  for (const char c : four) v = v << 8 | static_cast<uint8_t>(c);
  return static_cast<int>(v & 0xFFFFFF);
}

}  // namespace

Embedded Media::checked(std::string_view bytes, std::string_view mime, const std::string& name) {
  Embedded out;
  if (!is_what_it_says(bytes, mime)) {
    out.reason = name + " is no " + std::string(mime) + " file";
  } else if (bytes.size() > left_) {
    out.reason = name + " is left out: the page would become too large";
  } else {
    left_ -= bytes.size();
    out.uri = data_uri(mime, bytes);
    if (mime == "image/png") {
      out.width = big_endian(bytes.substr(16, 4));
      out.height = big_endian(bytes.substr(20, 4));
    }
  }
  return out;
}

Embedded Media::jpeg(std::string_view bytes) { return checked(bytes, "image/jpeg", "the picture"); }

Embedded Media::embed(const std::filesystem::path& file, std::string_view mime) {
  const std::string name = file.filename().string();
  const auto bytes = read_file(file, kLargest);
  if (bytes) return checked(*bytes, mime, name);
  std::error_code error;
  return {"",
          std::filesystem::exists(file, error) ? name + " is too large for this page" : "there is no " + name,
          0, 0};
}

}  // namespace kinora::core::report
