// stage/shard.webdataset: packs samples into WebDataset shards with Energon's index.
#pragma once
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "kinora/energon_files.hpp"
#include "kinora/energon_index.hpp"
#include "kinora/stage.hpp"
#include "planned_shard.hpp"

namespace kinora::shard {

// Samples arrive in the order of the source, and a shard ends at a count or a size that is known before it is
// written. So the same input gives the same bytes, and as many shards are written at once as the run has
// threads. A shard appears only when complete. Its samples are reported as stored when the shards before it
// are complete too. After a kill, the run continues after the existing shards up to the first that is
// missing, and receives the remaining samples again, so the result equals that of an uninterrupted run.
//
// Two fields of a sample are not stored. shard.folder names its folder in the dataset; a source that gives
// samples folder by folder gets full shards. A run that continues another must then give all samples again.
// shard.files names files whose bytes are fields, {"mp4": ["/clips/a.mp4", 12345]}: URI and size. They are
// read when their shard is written. A byte field of the same name counts instead. Byte fields are kept in
// memory until then.
class WebDatasetStage final : public Stage {
 public:
  struct Options {
    std::string prefix = "shard";
    int64_t max_count = 10000;
    int64_t max_size = 500'000'000;
    double val = 0.0;
    std::vector<std::string> skip = {"url"};
    int64_t part = 0;
  };
  static void describe(Describe<Options>& d);
  explicit WebDatasetStage(const Options& options);
  ~WebDatasetStage() override { stop_ = true; }
  void process(Sample in, const Emit& emit, const Run& run) override;
  void finish(const Emit& emit, const Run& run) override;
  kinora_resources resources() const override;

 private:
  std::vector<Content> contents_of(const Sample& in) const;
  void enter(const std::string& folder, const Emit& emit, const Run& run);
  void find_written_shards(const Emit& emit, const Run& run);
  void record(const std::string& name, const std::vector<energon::StoredSample>& samples);
  bool is_stored(std::string_view key) const;
  void plan(PlannedSample sample, const Emit& emit, const Run& run);
  void begin_writing(const Emit& emit, const Run& run);
  void finish_first(const Emit& emit, const Run& run);
  uint64_t in_memory() const;
  std::string uri(const std::string& name) const { return folder_ + "/" + name; }
  std::string shard_name(size_t number) const;
  std::string next_name() const { return shard_name(numbers_.at(place_)); }

  Options options_;
  std::string folder_;
  std::optional<energon::ShardIndex> index_;
  energon::IndexHash hash_;
  std::vector<energon::ShardInfo> shards_;
  std::vector<char> was_there_;            // one flag per shard: written by an earlier run
  bool resumes_ = false;                   // any of them is set
  std::map<std::string, size_t> numbers_;  // number of the next shard in each folder
  std::string place_;                      // folder of the following samples
  std::optional<PlannedShard> open_;       // receives the following samples
  std::unordered_set<std::string> known_;  // its keys
  struct Writing {
    std::shared_ptr<const PlannedShard> shard;
    std::future<std::vector<energon::StoredSample>> samples;
  };
  std::atomic<bool> stop_ = false;
  std::deque<Writing> writing_;  // in the order of the shards; destroyed first, which waits for the writers
};

// Check a name by WebDataset's rule, which decides whether readers recover a sample, and throw Error
// (KINORA_ERROR_DATA) that says what is wrong. A member of a shard is called KEY.FIELD, and readers split it
// at the first dot of its last part (^((?:.*/|)[^.]+)[.]([^/]*)$, the expression of webdataset and Energon).
// A key with a dot in its last part would be read as another key, and members called __x__ are not read.
void check_key(std::string_view key);
void check_field(std::string_view key, std::string_view field);

}  // namespace kinora::shard
