#include "plugins/jobs/data/index.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/quantity.hpp"
#include "core/base/status.hpp"
#include "core/runtime/call.hpp"
#include "kinora/energon_files.hpp"
#include "kinora/energon_index.hpp"
#include "plugins/jobs/data/earlier_index.hpp"
#include "plugins/jobs/data/in_order.hpp"
#include "plugins/jobs/data/part_file.hpp"
#include "plugins/jobs/data/split_file.hpp"

namespace kinora::data {
namespace {

class Indexer {
 public:
  Indexer(const DataFolder& folder, const IndexOptions& options, const OnProblem& problem)
      : folder_(folder),
        options_(options),
        problem_(problem),
        earlier_(folder),
        progress_("index", static_cast<int64_t>(folder.shards.size()), "shards") {
    record_.split = earlier_.record().split;
    record_.val = options.val ? options.val : earlier_.record().val;
  }

  IndexReport run() {
    report_.shards = folder_.shards.size();
    if (!options_.again && earlier_.knows_exactly(folder_.shards)) {
      keep_all();
    } else {
      read_all();
      write_all();
    }
    progress_.finish();
    return std::move(report_);
  }

 private:
  bool is_known(const Shard& shard) const { return !options_.again && earlier_.knows(shard); }

  // Nothing has changed but, perhaps, the share for validation.
  void keep_all() {
    record_.index = earlier_.record().index;
    record_.index_bytes = earlier_.record().index_bytes;
    record_.shards = earlier_.record().shards;
    for (const auto& shard : folder_.shards) {
      infos_.push_back({shard.name, record_.shards.at(shard.name).samples});
      report_.samples += infos_.back().samples;
    }
    report_.unchanged = report_.shards;
    const bool is_new_split = write_split(), is_new_dataset = write_dataset();
    report_.is_current = !is_new_split && !is_new_dataset;
    if (!report_.is_current) write_record(folder_, kIndexRecord, record_);
    remove_parts();
  }

  void read_all() {
    const size_t threads = options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
    InOrder<Piece> in_order(folder_.shards.size(), std::max<size_t>(threads, 1));
    in_order.run(
        [&](size_t number, const InOrder<Piece>::Push& push) {
          const Shard& shard = folder_.shards[number];
          if (is_known(shard)) return;
          const bool may_be_kept = !options_.again && shard.index_size;
          if (may_be_kept && scan_kept(folder_, shard, push))
            ++kept_;
          else
            scan_shard(folder_, shard, push);
        },
        [&](size_t number, Piece piece) { take(number, std::move(piece)); });
    begin_shards(folder_.shards.size());
  }

  // Begins the shards before `next`: those that gave no piece are read from the earlier index.
  void begin_shards(size_t next) {
    while (infos_.size() < next) {
      const size_t number = infos_.size();
      const Shard& shard = folder_.shards[number];
      begin_shard(shard);
      if (!is_known(shard)) continue;
      earlier_.read(shard, [&](Piece piece) {
        add(number, std::move(piece));
        return true;
      });
      ++report_.unchanged;
    }
  }

  void begin_shard(const Shard& shard) {
    end_shard();
    infos_.push_back({shard.name, 0});
    hash_.add(shard.name);
    is_whole_ = true;
  }

  // A shard with a problem is not recorded, so that the next run reports it again.
  void end_shard() {
    if (infos_.empty()) return;
    if (is_whole_) record_.add(folder_.shards[infos_.size() - 1], infos_.back().samples);
    progress_.update(static_cast<int64_t>(infos_.size()),
                     core::counted(static_cast<int64_t>(report_.samples), "sample", "samples"));
  }

  void take(size_t number, Piece piece) {
    begin_shards(number);
    if (infos_.size() == number) begin_shard(folder_.shards[number]);
    add(number, std::move(piece));
  }

  void add(size_t number, Piece piece) {
    auto& info = infos_.back();
    index_.add(
        static_cast<int64_t>(number), piece.samples, info.samples,
        [&](const energon::StoredSample& sample, const energon::ShardIndex::Place& first) {
          is_whole_ = false;
          ++report_.duplicates;
          problem_({info.name, sample.key, sample.offset,
                    fmt::format("the key is also in {} at {}, which the index keeps; make the keys differ",
                                folder_.shards[static_cast<size_t>(first.shard)].name, first.offset)});
        });
    for (const auto& sample : piece.samples) hash_.add(sample);
    info.samples += piece.samples.size();
    report_.samples += piece.samples.size();
    if (!piece.damage) return;
    is_whole_ = false;
    ++report_.damaged;
    problem_(*piece.damage);
  }

  // Until the new record, no shard counts as known: its files do not belong together meanwhile.
  void write_all() {
    end_shard();
    const std::string uuid = hash_.uuid();
    Record unknown;
    unknown.split = record_.split;
    unknown.val = record_.val;
    write_record(folder_, kIndexRecord, unknown);
    index_.publish(folder_.meta_uri("index.sqlite"));
    write_small(folder_.meta_uri("index.uuid"), uuid);
    write_split();
    write_dataset();
    write_small(folder_.meta_uri(".info.json"), energon::info_json(infos_));
    record_.index = uuid;
    record_.index_bytes = RandomBytes::of_file(folder_.meta_uri("index.sqlite")).size;
    write_record(folder_, kIndexRecord, record_);
    remove_parts();
    for (const auto& shard : folder_.shards)
      if (!is_known(shard)) remove_file(folder_.meta_uri(part_name(shard)));
    report_.unchanged += kept_;
  }

  // Removes the files that an interrupted run has left.
  void remove_parts() {
    for (const auto& [name, size] : folder_.meta)
      if (name.starts_with(kPartPrefix)) remove_file(folder_.meta_uri(name));
  }

  // Both return whether they wrote the file.
  bool write_split() {
    const std::string text = energon::split_yaml(infos_, record_.val.value_or(0));
    const auto before = read_small(folder_.meta_uri("split.yaml"));
    if (before == text) {
      record_.split = hash_of(text);
      return false;
    }
    if (before && hash_of(*before) != record_.split && !options_.again) return adapt_split(*before);
    write_small(folder_.meta_uri("split.yaml"), text);
    record_.split = hash_of(text);
    return true;
  }

  // Makes a split.yaml that something else wrote name the shards that are there.
  bool adapt_split(std::string_view text) {
    auto split = read_split(text);
    if (!split) {
      report_.notes.emplace_back(
          "split.yaml was not written by this command and has more than lists of shards, so it stays, "
          "whatever "
          "shards it names; --again replaces it");
      return false;
    }
    if (options_.val)
      report_.notes.emplace_back(
          "split.yaml was not written by this command, so --val does not change it; --again replaces it");
    const auto change = adapt(*split, infos_, new_shards());
    if (change.unnamed > 0)
      report_.notes.push_back(
          fmt::format("split.yaml has {} in none of its parts; add them to one, or to exclude",
                      core::counted(static_cast<int64_t>(change.unnamed), "shard", "shards")));
    if (change.gone + change.added == 0) return false;
    report_.notes.push_back(fmt::format("split.yaml was changed: {} without a shard removed, {} added to {}",
                                        core::counted(static_cast<int64_t>(change.gone), "name", "names"),
                                        core::counted(static_cast<int64_t>(change.added), "shard", "shards"),
                                        change.part));
    write_small(folder_.meta_uri("split.yaml"), split_text(*split));
    return true;
  }

  // Tells which shards the index of before, which anyone may have written, has no sample of.
  std::function<bool(const std::string&)> new_shards() const {
    std::optional<std::map<std::string, Listed>> before;
    const auto read = core::catching([&] { before = read_info(folder_); });
    if (!read && read.failure().code != KINORA_ERROR_DATA)
      throw Error(read.failure().code, read.failure().message);
    return [before](const std::string& shard) {
      if (!before) return false;
      const auto at = before->find(shard);
      return at == before->end() || at->second.samples == 0;
    };
  }

  bool write_dataset() {
    const auto before = read_small(folder_.meta_uri("dataset.yaml"));
    if (before == energon::dataset_yaml()) return false;
    if (before && !options_.again) {
      report_.notes.emplace_back(
          "dataset.yaml was not written by this command, so it stays; --again replaces it");
      return false;
    }
    write_small(folder_.meta_uri("dataset.yaml"), energon::dataset_yaml());
    return true;
  }

  const DataFolder& folder_;
  const IndexOptions& options_;
  const OnProblem& problem_;
  EarlierIndex earlier_;
  core::Progress progress_;
  energon::ShardIndex index_;
  energon::IndexHash hash_;
  std::vector<energon::ShardInfo> infos_;  // of the shards that were begun
  Record record_;
  IndexReport report_;
  bool is_whole_ = false;           // the current shard has no problem so far
  std::atomic<uint64_t> kept_ = 0;  // shards that an interrupted run had read
};

}  // namespace

IndexReport index_folder(const DataFolder& folder, const IndexOptions& options, const OnProblem& problem) {
  return Indexer(folder, options, problem).run();
}

}  // namespace kinora::data
