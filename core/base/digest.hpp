// SHA-256, used as the identity of a job's options and inputs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kinora::core {

// Digest of bytes that arrive piece by piece.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();
  void add(const void* data, size_t size);
  // 64 hexadecimal digits. Call once.
  std::string hex();

 private:
  void* state_;
};

// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

// Digest of a file, read piece by piece. Throws Error; KINORA_ERROR_CANCELLED if the job is cancelled
// meanwhile.
std::string sha256_of_file(const std::filesystem::path&);

// A file as a checkpoint's state lists it, by its name in the checkpoint's folder.
struct ListedFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};
// How the file in this folder differs from what is listed, such as "weights.safetensors is missing"; "" if it does not.
// with_digest: reads the file whole. Throws as sha256_of_file.
std::string fault_of(const std::filesystem::path& folder, const ListedFile&, bool with_digest);

}  // namespace kinora::core
