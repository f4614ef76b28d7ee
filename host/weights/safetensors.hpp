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
enum class SafeDtype : uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  f16,
  bf16,
  i32,
  f32,
  f64,
  i64
};
const char* name_of(SafeDtype);  // "F32"
uint64_t size_of(SafeDtype);     // bytes per element

struct PackedMatrix;
struct ScaledWeight;

struct SafeTensor {
  std::string name;
  SafeDtype dtype = SafeDtype::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // borrowed; empty if packed or scaled
  // Not null: a matrix that the file stores in four bits (packed_matrix.hpp); its values are decoded.
  std::shared_ptr<const PackedMatrix> packed = nullptr;
  // Not null: a weight that the file stores in eight bits with scales (scaled_weight.hpp); its values are decoded.
  std::shared_ptr<const ScaledWeight> scaled = nullptr;
};

using SafeMetadata = std::map<std::string, std::string>;

constexpr uint64_t kSafeHeaderLimit = 100'000'000;  // bytes, as in the reference implementation

// Header and bounds of a whole file in memory; the tensors borrow from `file`. Every name, shape and offset
// is checked against the rest of the file: the result can be read without further checks. `origin` names the
// file in failures.
struct SafeContents {
  std::vector<SafeTensor> tensors;  // sorted by name
  SafeMetadata metadata;
};
Result<SafeContents> parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// One file, mapped read-only; or several that an index joins. [any-thread] after open.
class Safetensors {
 public:
  // Opens a file, which may exist only as shards with an index; a *.safetensors.index.json with its shards
  // next to it; or a folder that contains one of either. In a folder it prefers model,
  // diffusion_pytorch_model or weights (a checkpoint's), since other files are then variants, then their
  // variant fp16 (model.fp16.safetensors, model.safetensors.index.fp16.json), then the only file. An index
  // takes precedence over a file. KINORA_ERROR_DATA with the reason if an index leads out of its folder, has
  // a name twice or names a missing shard, if two shards have a tensor of one name, or if a packed matrix is
  // not whole. Packed matrices and weights with scales are joined: join_packed in packed_matrix.hpp,
  // join_scaled in scaled_weight.hpp.
  static Result<Safetensors> open(const std::filesystem::path& path);

  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // sorted by name
  const SafeTensor* find(std::string_view name) const;                 // null: there is none
  std::vector<std::string> names() const;
  const SafeMetadata& metadata() const { return metadata_; }
  // The file, or the shards of an index, sorted.
  const std::vector<std::filesystem::path>& files() const { return files_; }
  // Keeps the mappings alive; the bytes of the tensors live as long as any copy of this.
  const std::shared_ptr<const void>& keep() const { return keep_; }

 private:
  std::vector<SafeTensor> tensors_;
  SafeMetadata metadata_;
  std::vector<std::filesystem::path> files_;
  std::shared_ptr<const void> keep_;
};

// The bytes of a tensor that is about to be written, with the size of its shape and dtype; they must stay
// valid until the next call.
using BytesOf = std::function<std::span<const std::byte>(const SafeTensor&)>;

// Writes atomically (atomic_file.hpp). Tensors in the order of the reference implementation: dtype
// descending, then name; equal input gives equal bytes. Names must differ; bytes must have the size of shape
// and dtype. With bytes_of the tensors' own bytes are ignored: only one tensor at a time is in memory.
Status write_safetensors(const std::filesystem::path& path, std::vector<SafeTensor> tensors,
                         const SafeMetadata& metadata = {}, const BytesOf& bytes_of = {});

// Like write_safetensors if the data have at most `most` bytes; else writes the usual shards of at most that
// size (a tensor is never split) X-00001-of-00003.safetensors next to `path` = X.safetensors, and last
// X.safetensors.index.json. The shards follow the order of `tensors`. Returns the file to open.
Result<std::filesystem::path> write_safetensors_sharded(const std::filesystem::path& path,
                                                        const std::vector<SafeTensor>& tensors,
                                                        const SafeMetadata& metadata, uint64_t most,
                                                        const BytesOf& bytes_of = {});

// Its two halves, for shards that several processes write. First the files, each with its tensors in the
// order in which write_safetensors writes them:
struct SafeShard {
  std::filesystem::path path;
  std::vector<SafeTensor> tensors;
  uint64_t bytes = 0;  // size of the tensors
};
Result<std::vector<SafeShard>> cut_into_shards(const std::filesystem::path& path,
                                               const std::vector<SafeTensor>& tensors, uint64_t most);
// Second, the index of several files; returns the file to open.
Result<std::filesystem::path> write_index(const std::filesystem::path& path,
                                          const std::vector<SafeShard>& shards);

// `path` = X.safetensors, or X.safetensors.index.json if only that exists.
std::filesystem::path file_or_index(const std::filesystem::path& path);

// Releases the pages of this mapped memory; a later read loads them from the file again. A loader of a large
// model calls it after each tensor.
void forget_pages(std::span<const std::byte> mapped);

// KINORA_ERROR_DATA if one of its files shrank since it was opened: reading the lost part would kill the
// process with SIGBUS, as would a file that shrinks during a read. So new weights must be written next to the
// old ones and renamed, as write_safetensors() does.
Status check_whole(const Safetensors& file);

}  // namespace kinora::core
