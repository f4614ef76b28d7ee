// safetensors files that all ranks write together: X.safetensors, or shards with an index above a size.
//
// The cut into files depends on the tensors' names, shapes and dtypes only, never on the ranks: a model has
// the same files, byte for byte, at every topology. Each file is written by one rank, in the order of its
// header; bytes are balanced over the ranks. Each tensor is assembled only on the rank that writes it, one at
// a time. For a write in the background a rank keeps its share of all files, and at most one file more.
#pragma once
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/digest.hpp"
#include "core/torch/weights/gathering.hpp"
#include "host/weights/safetensors.hpp"

namespace kinora::core {

constexpr uint64_t kShardSize = 5'000'000'000;  // bytes, the limit of transformers

struct TensorFile {
  std::string name = {};  // "optimizer.safetensors"
  std::vector<Holding> holdings = {};
  SafeMetadata metadata = {};
  // Replaces a tensor by another of the same shape and dtype; null: unchanged.
  std::function<at::Tensor(const std::string& name, const at::Tensor&)> change = {};
};

class ShardedFiles {
 public:
  // Collective over all ranks. A file without any tensor is left out.
  ShardedFiles(std::vector<TensorFile> files, const Exchange& exchange, uint64_t shard_size);
  ShardedFiles(const ShardedFiles&) = delete;
  ShardedFiles& operator=(const ShardedFiles&) = delete;

  // [owner-thread] Collective over all ranks. Writes this rank's files, with one tensor at a time in memory.
  // An error on one rank is thrown on all.
  void stream(const std::filesystem::path& folder);
  // The same in two halves. keep(): [owner-thread] collective over all ranks; copies what this rank will
  // write. write(): [any-thread] writes the copies.
  void keep();
  void write(const std::filesystem::path& folder);
  // [owner-thread] Collective over all ranks. The files that all of them wrote, after they did.
  std::vector<ListedFile> written() const;
  // To be called on one rank after all have written: writes the indices. Throws Error(KINORA_ERROR_IO) if a
  // rank's file is missing.
  void finish(const std::filesystem::path& folder) const;
  // Removes older files with these names that were cut differently.
  void clear(const std::filesystem::path& folder) const;

 private:
  struct Shard {
    SafeShard file;              // its path is only a name
    std::vector<int64_t> items;  // items of numbers_, in the order of its tensors
    const TensorFile* of = nullptr;
    int64_t writer = 0;
  };
  void assign();
  std::vector<const Shard*> shards_of(int64_t rank) const;
  at::Tensor next();
  void write_each(const std::filesystem::path& folder, const std::function<at::Tensor()>& next);

  Exchange exchange_;
  std::vector<TensorFile> files_;
  Gathering numbers_;
  std::vector<Shard> shards_;                                              // for all files, in order
  std::vector<std::vector<std::pair<int64_t, const TensorFile*>>> items_;  // by rank, in the order of writing
  size_t round_ = 0, rounds_ = 0;
  std::deque<at::Tensor> kept_;
  std::vector<ListedFile> written_;
};

// Does all of it in rank 0's folder, which afterwards has these files only, each whole. Returns written().
// Collective over all ranks; an error on one is thrown on all.
std::vector<ListedFile> write_files(const std::filesystem::path& folder, const std::vector<TensorFile>& files,
                                    const Exchange& exchange, uint64_t shard_size);

}  // namespace kinora::core
