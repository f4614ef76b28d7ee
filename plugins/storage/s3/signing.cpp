#include "plugins/storage/s3/signing.hpp"

#include <openssl/evp.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

std::string digest(std::string_view bytes, const EVP_MD* kind) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out, &size, kind, nullptr) != 1)
    throw Error(KINORA_ERROR_FAILED, "OpenSSL does not compute checksums here; is it set to FIPS only?");
  return {reinterpret_cast<char*>(out), size};
}

}  // namespace

ranged::HttpRequest signed_request(ranged::HttpRequest request, const Credentials& keys,
                                   const std::string& region) {
  if (!keys.token.empty()) request.headers.push_back("x-amz-security-token: " + keys.token);
  request.prepare = [key = keys.key, secret = keys.secret, scope = "aws:amz:" + region + ":s3"](CURL* h) {
    curl_easy_setopt(h, CURLOPT_AWS_SIGV4, scope.c_str());
    curl_easy_setopt(h, CURLOPT_USERNAME, key.c_str());
    curl_easy_setopt(h, CURLOPT_PASSWORD, secret.c_str());
  };
  return request;
}

std::string md5_bytes(std::string_view bytes) { return digest(bytes, EVP_md5()); }
std::string sha256_hex(std::string_view bytes) { return hexadecimal(digest(bytes, EVP_sha256())); }

std::string hexadecimal(std::string_view bytes) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) out += {kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return out;
}

}  // namespace kinora::s3
