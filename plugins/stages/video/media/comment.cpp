#include "media/comment.hpp"

#include <cstring>
#include <string>

#include "media/ffmpeg.hpp"
#include "media/media_error.hpp"

extern "C" {
#include <libavutil/crc.h>
}

namespace kinora::video {
namespace {

using Bytes = std::vector<uint8_t>;

void add(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void add_little(Bytes& to, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(v >> 8 * i));
}
void add_big(Bytes& to, uint32_t v) {
  for (int i = 3; i >= 0; --i) to.push_back(static_cast<uint8_t>(v >> 8 * i));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string xmp_of(std::string_view text) {
  return R"(<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">)"
         R"(<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><rdf:Alt>)"
         R"(<rdf:li xml:lang="x-default">)" +
         escaped(text) + "</rdf:li></rdf:Alt></dc:description></rdf:Description></rdf:RDF></x:xmpmeta>";
}

}  // namespace

Bytes png_with_comment(Bytes png, std::string_view text) {
  constexpr size_t kHeader = 8 + 25;  // the signature and IHDR
  if (png.size() < kHeader) throw MediaError("the PNG is too short to hold a comment");
  Bytes chunk;
  add(chunk, "iTXt");
  add(chunk, std::string_view("Comment\0\0\0\0\0", 12));  // uncompressed, without a language
  add(chunk, text);
  Bytes whole;
  add_big(whole, static_cast<uint32_t>(chunk.size() - 4));
  whole.insert(whole.end(), chunk.begin(), chunk.end());
  add_big(whole, ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), ~0U, chunk.data(), chunk.size()));
  png.insert(png.begin() + kHeader, whole.begin(), whole.end());
  return png;
}

Bytes webp_with_comment(Bytes webp, std::string_view text, int width, int height) {
  constexpr size_t kRiff = 12, kFlags = kRiff + 8;
  constexpr uint8_t kHasXmp = 4;
  if (webp.size() < kFlags + 1) throw MediaError("the WebP is too short to hold a comment");
  if (std::memcmp(webp.data() + kRiff, "VP8X", 4) == 0) {
    webp[kFlags] |= kHasXmp;
  } else {
    Bytes extended;
    add(extended, "VP8X");
    add_little(extended, 10, 4);
    add_little(extended, kHasXmp, 4);
    add_little(extended, static_cast<uint64_t>(width - 1), 3);
    add_little(extended, static_cast<uint64_t>(height - 1), 3);
    webp.insert(webp.begin() + kRiff, extended.begin(), extended.end());
  }
  const std::string xmp = xmp_of(text);
  add(webp, "XMP ");
  add_little(webp, xmp.size(), 4);
  add(webp, xmp);
  if (xmp.size() % 2) webp.push_back(0);
  Bytes size;
  add_little(size, webp.size() - 8, 4);
  std::copy(size.begin(), size.end(), webp.begin() + 4);
  return webp;
}

}  // namespace kinora::video
