// source/webdataset: the samples of tar shards, in their order.
//
// With at least as many shards as parts, part i of n reads the shards i, i + n, i + 2n, ... as a whole; with
// fewer, it reads every shard f and gives those of its samples j for which (f + j) mod n is i.
//
// A sample that is damaged costs that sample, and a damaged archive the rest of its shard. Where parts share a
// shard, each of them reports the damage of the archive.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kinora/source.hpp"
#include "kinora/webdataset_files.hpp"
#include "kinora/webdataset_reader.hpp"
#include "position.hpp"

namespace kinora::webdataset {

class WebDatasetSource final : public Source {
 public:
  struct Options {
    int64_t max_sample = int64_t{1} << 32;
  };
  static void describe(Describe<Options>& d);
  explicit WebDatasetSource(const Options& options);

  void open(std::string_view path, uint64_t shard, uint64_t shards) override;
  std::optional<Sample> next() override;
  std::string state() override;
  void restore(std::string_view state) override;
  std::optional<uint64_t> count() override;

 private:
  bool has_whole_files() const { return files_.size() >= at_.shards; }
  // Whether the file's sample with this number belongs to this part.
  bool is_mine(uint64_t file, uint64_t sample) const;
  void require_open() const;
  // Opens the file of the position at the position.
  void open_file();
  void next_file();
  std::optional<Sample> read_sample();
  // Notes that the sample which the reader read last is behind the position.
  void pass_sample();

  WebDatasetLimits limits_;
  bool is_open_ = false;
  std::vector<WebDatasetFile> files_;
  Position at_;
  std::optional<WebDatasetReader> reader_;  // of the position's file
  uint64_t base_ = 0;                       // offset of the reader's first byte in the file
};

}  // namespace kinora::webdataset
