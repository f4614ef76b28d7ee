// Adds a comment to an encoded picture or animation.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace kinora::video {

// Inserts an iTXt chunk "Comment" after the header (PNG, third edition, section 11.3.3.4); text: UTF-8.
std::vector<uint8_t> png_with_comment(std::vector<uint8_t> png, std::string_view text);

// Adds XMP with the text as dc:description (RFC 9649, section 2.7.1.5; XMP, ISO 16684-1). An image without the
// extended header gets one.
std::vector<uint8_t> webp_with_comment(std::vector<uint8_t> webp, std::string_view text, int width,
                                       int height);

}  // namespace kinora::video
