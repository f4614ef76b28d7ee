// safetensors files: named tensors and a map of strings, nothing executable.
//
// Layout: uint64 little-endian length n of the header, n bytes of JSON {"name": {"dtype", "shape",
// "data_offsets": [begin, end]}, "__metadata__": {string: string}}, then the data, little-endian, row-major,
// without holes. Specification: github.com/huggingface/safetensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

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

// Header and bounds of a whole file in memory; the tensors borrow from `file`. Every name, shape and offset
// is checked against the rest of the file: what is returned can be read without further checks. `origin`
// names the file in failures.
struct SafeContents {
  std::vector<SafeTensor> tensors;  // sorted by name
  SafeMetadata metadata;
};
Result<SafeContents> parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// One file, mapped read-only; or several that an index joins. [any-thread] after open.
class Safetensors {
 public:
  // A file, which may be there as shards with an index only; a *.safetensors.index.json with its shards
  // beside it; or a folder that holds one of either: model, diffusion_pytorch_model or weights (a
  // checkpoint's) if they are there (others are then variants), else their variant fp16
  // (model.fp16.safetensors, model.safetensors.index.fp16.json), else the only one. In a folder an index
  // counts before a file. KINORA_DATA, naming what is wrong, if an index leads out of its folder, says a name
  // twice or names a shard that is not there, or if two shards hold a tensor of one name.
  static Result<Safetensors> open(const std::filesystem::path& path);

  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // sorted by name
  const SafeTensor* find(std::string_view name) const;                 // null: there is none
  std::vector<std::string> names() const;
  const SafeMetadata& metadata() const { return metadata_; }
  // The file, or the shards of an index, sorted.
  const std::vector<std::filesystem::path>& files() const { return files_; }
  // Keeps the mappings; the bytes of the tensors live as long as any copy of this.
  const std::shared_ptr<const void>& keep() const { return keep_; }

 private:
  std::vector<SafeTensor> tensors_;
  SafeMetadata metadata_;
  std::vector<std::filesystem::path> files_;
  std::shared_ptr<const void> keep_;
};

// The bytes of a tensor that is about to be written, of the size of its shape and dtype; they need to live
// until the next call.
using BytesOf = std::function<std::span<const std::byte>(const SafeTensor&)>;

// Writes atomically (atomic_file.hpp). Tensors in the order of the reference implementation: dtype
// descending, then name; equal input gives equal bytes. Names must differ; bytes must have the size of shape
// and dtype. With bytes_of the tensors' own bytes are not looked at: one tensor at a time is in memory.
Status write_safetensors(const std::filesystem::path& path, std::vector<SafeTensor> tensors,
                         const SafeMetadata& metadata = {}, const BytesOf& bytes_of = {});

// As write_safetensors if the data have at most `most` bytes; else, as the field does, shards of at most that
// (but a tensor is never cut) X-00001-of-00003.safetensors beside `path` = X.safetensors, and last
// X.safetensors.index.json. The shards follow the order of `tensors`. Returns the file to open.
Result<std::filesystem::path> write_safetensors_sharded(const std::filesystem::path& path,
                                                        const std::vector<SafeTensor>& tensors,
                                                        const SafeMetadata& metadata, uint64_t most,
                                                        const BytesOf& bytes_of = {});

// Its two halves, for shards that several processes write. The files, each with its tensors in the order in
// which write_safetensors writes them:
struct SafeShard {
  std::filesystem::path path;
  std::vector<SafeTensor> tensors;
  uint64_t bytes = 0;  // of the tensors
};
Result<std::vector<SafeShard>> cut_into_shards(const std::filesystem::path& path,
                                               const std::vector<SafeTensor>& tensors, uint64_t most);
// And the index of several; returns the file to open.
Result<std::filesystem::path> write_index(const std::filesystem::path& path,
                                          const std::vector<SafeShard>& shards);

// `path` = X.safetensors, or X.safetensors.index.json if only that is there.
std::filesystem::path file_or_index(const std::filesystem::path& path);

// The pages of this mapped memory leave the process; a later read brings them back from the file. What a
// loader of a large model calls after each tensor.
void forget_pages(std::span<const std::byte> mapped);

}  // namespace kinora::core
