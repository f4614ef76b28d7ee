// stage/shard.webdataset: packs samples into WebDataset shards with Energon's index.
#pragma once
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "kinora/energon_files.hpp"
#include "kinora/energon_index.hpp"
#include "kinora/stage.hpp"
#include "tar.hpp"

namespace kinora::shard {

// Samples arrive in the order of the source and a shard ends at a count or a size, so the same input gives
// the same bytes. A shard appears only when complete, and only then are its samples reported as stored. After
// a kill, the run continues after the existing shards and receives the remaining samples again, so the result
// equals that of an uninterrupted run.
//
// A sample's field shard.folder, which is not stored, names its folder in the dataset; a source that gives
// samples folder by folder gets full shards. A run that continues another must then give all samples again.
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
  void process(Sample in, const Emit& emit, const Run& run) override;
  void finish(const Emit& emit, const Run& run) override;
  kinora_resources resources() const override { return {sizeof(kinora_resources), 1, 1.0, 0.0, 0}; }

 private:
  std::vector<Sample::Field> checked_fields(const Sample& in) const;
  void enter(const std::string& folder, const Emit& emit, const Run& run);
  void find_written_shards(const Run& run);
  void record(const std::string& name, const std::vector<energon::StoredSample>& samples);
  bool is_stored(const Sample& in) const;
  void write(const Sample& in, const std::vector<Sample::Field>& fields);
  void close(const Emit& emit);
  std::string uri(const std::string& name) const { return folder_ + "/" + name; }
  std::string shard_name(size_t number) const;
  std::string next_name() const { return shard_name(numbers_.at(place_)); }

  Options options_;
  std::string folder_;
  std::optional<energon::ShardIndex> index_;
  energon::IndexHash hash_;
  std::vector<energon::ShardInfo> shards_;
  std::vector<char> was_there_;            // one flag per shard: written by an earlier run
  std::map<std::string, size_t> numbers_;  // number of the next shard in each folder
  std::string place_;                      // folder that is being written
  struct OpenShard {
    explicit OpenShard(std::string_view uri) : tar(uri) {}
    TarWriter tar;
    std::vector<Member> members;
    std::vector<std::string> keys;  // in the order of the shard
    std::unordered_set<std::string> known;
  };
  std::unique_ptr<OpenShard> open_;
};

// Check a name by WebDataset's rule, which decides whether readers recover a sample, and throw Error
// (KINORA_ERROR_DATA) that says what is wrong. A member of a shard is called KEY.FIELD, and readers split it
// at the first dot of its last part (^((?:.*/|)[^.]+)[.]([^/]*)$, the expression of webdataset and Energon).
// A key with a dot in its last part would be read as another key, and members called __x__ are not read.
void check_key(std::string_view key);
void check_field(std::string_view key, std::string_view field);

}  // namespace kinora::shard
