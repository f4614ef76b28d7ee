// safetensors files that all ranks write together: X.safetensors, or shards with an index above a size.
//
// How tensors are cut into files depends on their names, shapes and dtypes only, never on the ranks: a model
// has the same files, byte for byte, at every topology. Each file is written by one rank, in the order of its
// header; the ranks' files are balanced by bytes. Each tensor is made whole on the rank that writes it only,
// one at a time; what a rank keeps for a write in the background is its share of all files, and at most one
// file more.
#pragma once
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/io/safetensors.hpp"
#include "core/torch/weights/gathering.hpp"

namespace kinora::core {

constexpr uint64_t kShardSize = 5'000'000'000;  // bytes, as transformers cuts

struct TensorFile {
  std::string name = {};  // "optimizer.safetensors"
  std::vector<Holding> holdings = {};
  SafeMetadata metadata = {};
  // What is written instead of a tensor, of its shape and dtype; null: itself.
  std::function<at::Tensor(const std::string& name, const at::Tensor&)> change = {};
};

class ShardedFiles {
 public:
  // A meeting of all ranks. A file without any tensor is left out.
  ShardedFiles(std::vector<TensorFile> files, const Exchange& exchange, uint64_t shard_size);
  ShardedFiles(const ShardedFiles&) = delete;
  ShardedFiles& operator=(const ShardedFiles&) = delete;

  // [owner-thread] A meeting of all ranks. Writes this rank's files, one tensor at a time in memory. What
  // fails on one rank is thrown on all.
  void stream(const std::filesystem::path& folder);
  // Or in two halves: [owner-thread] a meeting of all ranks, after which this rank has what it will write, in
  // copies of its own; and [any-thread] the writing.
  void keep();
  void write(const std::filesystem::path& folder);
  // One rank, when all have written: the indices. Throws Error(KINORA_IO) if a rank's file is not there.
  void finish(const std::filesystem::path& folder) const;
  // What is in the folder of such files from before, under these names but cut otherwise, goes.
  void clear(const std::filesystem::path& folder) const;

 private:
  struct Shard {
    SafeShard file;              // its path is a name
    std::vector<int64_t> items;  // of numbers_, as its tensors
    const TensorFile* of = nullptr;
    int64_t writer = 0;
  };
  void assign();
  std::vector<const Shard*> shards_of(int64_t rank) const;
  at::Tensor next();
  void write_each(const std::filesystem::path& folder, const std::function<at::Tensor()>& next) const;

  Exchange exchange_;
  std::vector<TensorFile> files_;
  Gathering numbers_;
  std::vector<Shard> shards_;                                              // of all files, in their order
  std::vector<std::vector<std::pair<int64_t, const TensorFile*>>> items_;  // by rank, as it writes them
  size_t round_ = 0, rounds_ = 0;
  std::deque<at::Tensor> kept_;
};

// All of it at once, in rank 0's folder: what is there afterwards is these files, each whole. A meeting of
// all ranks; what fails on one is thrown on all.
void write_files(const std::filesystem::path& folder, const std::vector<TensorFile>& files,
                 const Exchange& exchange, uint64_t shard_size);

}  // namespace kinora::core
