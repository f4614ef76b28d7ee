// safetensors files: named tensors and a map of strings, nothing executable.
//
// Layout: uint64 little-endian length n of the header, n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin,
// end]}, "__metadata__": {string: string}}, then the data, little-endian, row-major, without holes. Specification:
// github.com/huggingface/safetensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace kinora::core {

// In the order in which the reference implementation sorts tensors by dtype.
enum class SafeDtype : uint8_t { boolean, u8, i8, i16, f16, bf16, i32, f32, f64, i64 };
const char* name_of(SafeDtype);  // "F32"
uint64_t size_of(SafeDtype);     // bytes an element

struct SafeTensor {
  std::string name;
  SafeDtype dtype = SafeDtype::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // borrowed
};

using SafeMetadata = std::map<std::string, std::string>;

constexpr uint64_t kSafeHeaderLimit = 100'000'000;  // bytes, as in the reference implementation

// Header and bounds of a whole file in memory; the tensors borrow from `file`. Every name, shape and offset is checked against
// the rest of the file: what is returned can be read without further checks. `origin` names the file in failures.
struct SafeContents {
  std::vector<SafeTensor> tensors;  // sorted by name
  SafeMetadata metadata;
};
Result<SafeContents> parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// One file, mapped read-only; or several that an index joins. [any-thread] after open.
class Safetensors {
 public:
  // A file; a *.safetensors.index.json with its shards beside it; or a folder that holds one of either. In a folder with both,
  // the index counts.
  static Result<Safetensors> open(const std::filesystem::path& path);

  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // sorted by name
  const SafeTensor* find(std::string_view name) const;                 // null: there is none
  std::vector<std::string> names() const;
  const SafeMetadata& metadata() const { return metadata_; }
  // Keeps the mappings; the bytes of the tensors live as long as any copy of this.
  const std::shared_ptr<const void>& keep() const { return keep_; }

 private:
  std::vector<SafeTensor> tensors_;
  SafeMetadata metadata_;
  std::shared_ptr<const void> keep_;
};

// Writes atomically (atomic_file.hpp). Tensors in the order of the reference implementation: dtype descending, then name;
// equal input gives equal bytes. Names must differ; bytes must have the size of shape and dtype.
Status write_safetensors(const std::filesystem::path& path, std::vector<SafeTensor> tensors, const SafeMetadata& metadata = {});

}  // namespace kinora::core
