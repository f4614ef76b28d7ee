// Checksums by which a server verifies an upload.
#pragma once
#include <string>
#include <string_view>

namespace kinora::s3 {

std::string md5_bytes(std::string_view bytes);  // 16
std::string hexadecimal(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace kinora::s3
