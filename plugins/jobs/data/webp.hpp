// Previews (preview.webp of stage/clip.preview), which move: their size, and their first frame as a picture that stands
// still, without decoding. WebP Container Specification, sections "Extended File Format" and "Animation".
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kinora::core {

struct WebpPreview {
  int width = 0, height = 0;  // pixels
  std::string still;          // the first frame, a WebP file of its own

  bool operator==(const WebpPreview&) const = default;
};

namespace webp {

inline uint32_t little_endian(std::string_view bytes) {
  uint32_t out = 0;
  for (size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<uint8_t>(bytes[i]);
  return out;
}

inline std::string four_bytes(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

// The contents of the first chunk of that name; nothing if there is none that is whole.
inline std::optional<std::string_view> chunk(std::string_view chunks, std::string_view name) {
  while (chunks.size() >= 8) {
    const uint64_t size = little_endian(chunks.substr(4, 4));
    if (size > chunks.size() - 8) return std::nullopt;
    if (chunks.substr(0, 4) == name) return chunks.substr(8, size);
    chunks.remove_prefix(std::min<uint64_t>(8 + size + size % 2, chunks.size()));
  }
  return std::nullopt;
}

// The size that a picture's data begins with: RFC 6386, section 9.1, and the specification of the lossless format.
inline std::optional<std::pair<int, int>> picture_size(std::string_view chunks) {
  const auto sides = [](uint32_t width, uint32_t height) {
    return std::pair{static_cast<int>(width), static_cast<int>(height)};
  };
  if (const auto extended = chunk(chunks, "VP8X"); extended && extended->size() >= 10)
    return sides(little_endian(extended->substr(4, 3)) + 1, little_endian(extended->substr(7, 3)) + 1);
  if (const auto lossy = chunk(chunks, "VP8 "); lossy && lossy->size() >= 10)
    return sides(little_endian(lossy->substr(6, 2)) & 0x3FFF, little_endian(lossy->substr(8, 2)) & 0x3FFF);
  if (const auto lossless = chunk(chunks, "VP8L"); lossless && lossless->size() >= 5) {
    const uint32_t bits = little_endian(lossless->substr(1, 4));
    return sides((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1);
  }
  return std::nullopt;
}

}  // namespace webp

// The preview of a clip of one frame does not move. Nothing: it is no WebP, or its first frame does not fill it.
inline std::optional<WebpPreview> webp_preview(std::string_view file) {
  if (file.size() < 12 || file.substr(0, 4) != "RIFF" || file.substr(8, 4) != "WEBP") return std::nullopt;
  const std::string_view chunks = file.substr(12);
  const auto size = webp::picture_size(chunks);
  if (!size) return std::nullopt;
  const auto [width, height] = *size;
  const auto canvas = webp::chunk(chunks, "VP8X"), frame = webp::chunk(chunks, "ANMF");
  const bool moves = canvas && !canvas->empty() && (canvas->front() & 2) != 0;
  if (!moves) return WebpPreview{width, height, std::string(file)};
  if (!frame || frame->size() < 16 + 8) return std::nullopt;
  // Offsets of the frame (3 bytes each), its size as the canvas has it, its duration and its flags.
  if (frame->substr(0, 6) != std::string_view("\0\0\0\0\0\0", 6) ||
      frame->substr(6, 6) != canvas->substr(4, 6))
    return std::nullopt;
  const std::string_view data = frame->substr(16);
  const char has_alpha = data.starts_with("ALPH") || data.starts_with("VP8L") ? 0x10 : 0;
  const std::string body = std::string("WEBPVP8X") + webp::four_bytes(10) + has_alpha + std::string(3, '\0') +
                           std::string(canvas->substr(4, 6)) + std::string(data);
  return WebpPreview{width, height, "RIFF" + webp::four_bytes(static_cast<uint32_t>(body.size())) + body};
}

}  // namespace kinora::core
