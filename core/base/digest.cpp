#include "core/base/digest.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "core/base/cancel.hpp"
#include "core/base/regular_stream.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string out;
  for (const auto byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_), EVP_sha256(), nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state_)); }

void Sha256::add(const void* data, size_t size) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_), data, size);
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_), digest, &size);
  return hexadecimal({digest, size});
}

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  return hexadecimal({digest, size});
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream in = or_throw(regular_stream(path));
  Sha256 hash;
  std::vector<char> piece(size_t{1} << 20);
  while (in) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add(piece.data(), static_cast<size_t>(in.gcount()));
  }
  // A stream also stops at an error of the device, with the bytes so far: that digest would be wrong.
  if (!in.eof())
    throw Error(KINORA_ERROR_IO, path.string() + ": the file cannot be read to its end; check the disk");
  return hash.hex();
}

std::string fault_of(const std::filesystem::path& folder, const ListedFile& file, bool with_digest) {
  const auto path = folder / file.name;
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) return file.name + " is missing";
  if (bytes != file.bytes)
    return fmt::format("{} has {} bytes, and {} were written", file.name, bytes, file.bytes);
  if (with_digest && sha256_of_file(path) != file.sha256)
    return file.name + " is damaged: its SHA-256 is not that of what was written";
  return "";
}

}  // namespace kinora::core
