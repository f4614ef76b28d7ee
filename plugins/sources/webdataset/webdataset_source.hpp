// source/webdataset: the samples of tar shards, in their order.
//
// With at least as many shards as parts, part i of n reads the shards i, i + n, i + 2n, ... as a whole; with
// fewer, it reads every shard f and gives those of its samples j for which (f + j) mod n is i.
//
// A sample that is damaged costs that sample, and a damaged archive the rest of its shard: one failure for
// the damaged place and one for each sample whose header is behind it, as a training counts them. Where parts
// share a shard, each of them reports the damaged place.
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

  void open(std::string_view path, uint64_t shard, uint64_t shards, const Run& run) override;
  std::optional<Sample> next(const Run& run) override;
  std::string state() override;
  void restore(std::string_view state) override;
  std::optional<uint64_t> count() override;

 private:
  bool has_whole_files() const { return files_.size() >= at_.shards; }
  // Whether the file's sample with this number belongs to this part.
  bool is_mine(uint64_t file, uint64_t sample) const;
  void require_open() const;
  // Throws Error(KINORA_ERROR_INVALID): the position's file is not the one of the state.
  [[noreturn]] void refuse(const std::string& why) const;
  // Makes the reader of the position's file, which continues at the position.
  void open_reader(const RandomBytes& bytes);
  // The same, and finds the samples behind the damage if the position is there.
  void open_file();
  void close_file();
  void next_file();
  std::optional<Sample> read_sample();
  // Notes that the sample which the reader read last is behind the position.
  void pass_sample();
  // Finds the samples behind the damage at the position. what: the error that says where it is.
  void find_behind(const std::string& what);
  // In the handler of `damage`, after which the file cannot be read on: passes over the damaged place and throws. An
  // error that may pass keeps the position.
  [[noreturn]] void fail_file(const Error& damage);
  // Throws for the next of them that is this part's, or opens the next file behind the last.
  void fail_behind();

  WebDatasetLimits limits_;
  bool is_open_ = false;
  std::vector<WebDatasetFile> files_;
  Position at_;
  std::optional<WebDatasetReader> reader_;  // of the position's file
  uint64_t base_ = 0;                       // offset of the reader's first byte in the file
  std::string damage_;                      // at the position; empty: none
  std::vector<WebDatasetEntry> behind_;     // the samples behind it
};

}  // namespace kinora::webdataset
