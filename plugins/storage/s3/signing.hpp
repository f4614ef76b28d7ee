// Signatures of requests by SigV4, and the checksums that they carry.
#pragma once
#include <string>
#include <string_view>

#include "plugins/storage/ranged/http.hpp"
#include "plugins/storage/s3/credentials.hpp"

namespace kinora::s3 {

// libcurl signs the request when it is performed.
ranged::HttpRequest signed_request(ranged::HttpRequest request, const Credentials& keys,
                                   const std::string& region);

// Checksums by which a server verifies an upload.
std::string md5_bytes(std::string_view bytes);  // 16 bytes, not hexadecimal
std::string hexadecimal(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace kinora::s3
