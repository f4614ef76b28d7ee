#include "plugins/jobs/loading/shard_set.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/io.hpp"
#include "kinora/json_nan.hpp"
#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::core {
namespace {

class TarShard final : public SampleShard {
 public:
  TarShard(const std::string& uri, const OpenBytes& open)
      : uri_(uri), shard_(or_throw(WebDatasetShard::open_or_scan(uri, {}, open))) {}
  bool has_index() const { return shard_.has_index(); }
  bool is_whole() const { return shard_.is_whole(); }
  uint64_t size() const override { return shard_.size(); }
  WebDatasetSample at(uint64_t i) const override { return or_throw(shard_.at(i)); }
  uint64_t offset(uint64_t i) const override { return shard_.offset(i); }
  uint64_t bytes(uint64_t i) const override { return or_throw(shard_.bytes(i)); }
  std::string key(uint64_t i) const override { return or_throw(shard_.key(i)); }
  nlohmann::json facts(uint64_t i) const override {
    const auto bytes = or_throw(shard_.field(i, "json"));
    if (!bytes) return {};
    const std::string text = as_utf8({bytes->begin(), bytes->end()}, "the json of a sample of " + uri_);
    auto out = parse_facts(text);
    if (out.is_discarded()) out = parse_facts(without_nan(text));
    if (out.is_discarded())
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{}: the sample '{}' at byte {}: its json is not JSON, or nested more than 64 "
                              "levels deep; fix it, or remove the sample",
                              uri_, key(i), shard_.offset(i)));
    return out;
  }

 private:
  std::string uri_;
  WebDatasetShard shard_;
};

// uri: of a shard that .info.json lists. path: of the set.
std::string missing(const std::string& uri, const std::string& path) {
  return fmt::format(
      "{}: missing, but {}/.nv-meta/.info.json lists it; bring it back, or leave it out with `kinora "
      "data index {}",
      uri, path, is_web(path) ? "FOLDER` where the shards are, and upload .nv-meta" : path + "`");
}

std::shared_ptr<TarShard> open_listed(const std::string& uri, const std::string& path,
                                      const OpenBytes& open) {
  try {
    return std::make_shared<TarShard>(uri, open);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_NOT_FOUND || !is_web(uri)) throw;
    throw Error(e.code(), missing(uri, path));
  }
}

// Compares the shards of a local folder with its .info.json. Throws Error(KINORA_ERROR_DATA) if a listed one is
// missing, and warns of those that are not listed.
void check_listing(const std::string& path, const std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(fs::path(path) / ".nv-meta/.info.json", error)) return;
  std::set<fs::path> listed;
  for (const auto& name : names) {
    if (!fs::exists(name, error)) throw Error(KINORA_ERROR_DATA, missing(name, path));
    listed.insert(fs::path(name).lexically_normal());
  }
  std::set<std::string> unlisted;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".tar") && name.front() != '.' && !listed.contains(at->path().lexically_normal()))
      unlisted.insert(name);
  }
  if (!unlisted.empty())
    log_warn(
        "{}: {} not in .nv-meta/.info.json and not read, the first is {}; add them with `kinora data index "
        "{}`",
        path, counted(static_cast<int64_t>(unlisted.size()), "shard is", "shards are"), *unlisted.begin(),
        path);
}

}  // namespace

ShardSet::ShardSet(std::string path, std::shared_ptr<SampleCache> cache, OpenBytes open)
    : path_(std::move(path)), files_(path_, std::move(cache), std::move(open)) {
  if (auto files = mds_files(path_)) {
    mds_ = *std::move(files);
    for (const auto& file : mds_) {
      names_.push_back(file.uri);
      samples_.push_back(file.samples);
    }
  } else {
    list_tars();
  }
  count_all();
}

ShardSet::ShardSet(std::string path, const DataSource& source)
    : path_(std::move(path)), files_(path_, nullptr), source_(std::in_place, source, path_) {
  for (uint64_t first = 0; first < source_->size(); first += SourceShards::kSamples) {
    names_.push_back(fmt::format("{}#{}", path_, names_.size()));
    samples_.push_back(std::min(SourceShards::kSamples, source_->size() - first));
  }
  count_all();
}

void ShardSet::count_all() {
  constexpr uint64_t kMost = uint64_t{1} << 50;  // a blend multiplies the sum
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (samples_[i] > kMost || size_ > kMost - samples_[i])
      throw Error(
          KINORA_ERROR_DATA,
          fmt::format("{}: has {} samples by its index, more than any set can have; write it again with "
                      "`kinora data index {}`",
                      names_[i], samples_[i], path_));
    size_ += samples_[i];
  }
  if (size_ == 0)
    throw Error(KINORA_ERROR_DATA, path_ + ": contains no samples; check the job or program that made it");
}

void ShardSet::list_tars() {
  int64_t without_index = 0;
  for (auto& file : or_throw(webdataset_list(path_))) {
    const size_t number = names_.size();
    names_.push_back(std::move(file.uri));
    if (!file.samples) {
      auto opened = std::make_shared<TarShard>(names_.back(), opener());
      without_index += opened->has_index() ? 0 : 1;
      file.samples = opened->size();
      keep(number, std::move(opened));
    }
    samples_.push_back(*file.samples);
  }
  if (without_index > 0)
    log_warn("{}: {} without an index, so their headers were read; write it once with `kinora data index {}`",
             path_, counted(without_index, "shard", "shards"), path_);
  check_listing(path_, names_);
}

std::string ShardSet::digest() const {
  if (source_) return sha256(fmt::format("{} samples of a source\n", size_));
  size_t shared = names_.front().rfind('/') + 1;
  for (const auto& name : names_)
    while (shared > 0 && name.compare(0, shared, names_.front(), 0, shared) != 0)
      shared = shared > 1 ? names_.front().rfind('/', shared - 2) + 1 : 0;
  std::string all;
  for (size_t i = 0; i < names_.size(); ++i)
    all += names_[i].substr(shared) + " " + std::to_string(samples_[i]) + "\n";
  return sha256(all);
}

std::shared_ptr<const SampleShard> ShardSet::shard(size_t number) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto it = open_.find(number); it != open_.end()) {
      used_.splice(used_.begin(), used_, std::find(used_.begin(), used_.end(), number));
      return it->second;
    }
  }
  if (source_) return keep(number, source_->shard(number));
  if (!mds_.empty()) return keep(number, open_mds(mds_[number], opener()));
  auto opened = open_listed(names_[number], path_, opener());
  if (opened->is_whole() && opened->size() != samples_[number])
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format(
            "{}: has {} by its {}, and .nv-meta/.info.json says {}; write both again with `kinora data "
            "index {}`",
            names_[number], counted(static_cast<int64_t>(opened->size()), "sample", "samples"),
            opened->has_index() ? "index" : "headers", samples_[number], path_));
  if (!opened->is_whole()) note_unread(number, *opened);
  return keep(number, std::move(opened));
}

void ShardSet::note_unread(size_t number, const SampleShard& shard) const {
  const std::scoped_lock lock(mutex_);
  if (!has_unread_.insert(number).second) return;
  for (uint64_t i = samples_[number]; i < shard.size(); ++i) {
    const auto why = catching([&] { shard.bytes(i); });
    unread_.push_back({text_of(number, i), why ? "damaged" : why.failure().message});
  }
}

std::vector<UnreadSample> ShardSet::take_unread() const {
  const std::scoped_lock lock(mutex_);
  return std::exchange(unread_, {});
}

std::shared_ptr<const SampleShard> ShardSet::keep(size_t number,
                                                  std::shared_ptr<const SampleShard> opened) const {
  constexpr size_t kMostOpen = 64;
  const std::scoped_lock lock(mutex_);
  if (const auto it = open_.find(number); it != open_.end()) return it->second;  // another thread was faster
  if (open_.size() == kMostOpen) {
    open_.erase(used_.back());
    used_.pop_back();
  }
  used_.push_front(number);
  return open_[number] = std::move(opened);
}

void ShardSet::refuse_unreachable(size_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = unreachable_.find(number);
  if (found != unreachable_.end() && Clock::now() < found->second.until)
    throw Error(KINORA_ERROR_DATA, found->second.why);
}

Error ShardSet::unreachable(size_t number, const std::string& why) const {
  constexpr auto kPause = std::chrono::minutes(10);
  constexpr int kMostInARow = 5;
  const std::scoped_lock lock(mutex_);
  Unreachable& its = unreachable_[number];
  if (Clock::now() >= its.until) ++unreachable_in_a_row_;
  if (unreachable_in_a_row_ >= kMostInARow)
    return {
        KINORA_ERROR_IO,
        fmt::format("{}; {} shards of {} in a row could not be read, so the storage seems to be away; run it "
                    "again when it is back",
                    why, kMostInARow, path_)};
  its = {Clock::now() + kPause, why + "; the samples of this shard are left out for 10 minutes"};
  return {KINORA_ERROR_DATA, its.why};
}

std::string ShardSet::text_of(size_t number, uint64_t sample) const {
  return source_ ? fmt::format("sample {} of {}", number * SourceShards::kSamples + sample, path_)
                 : fmt::format("sample {} of {}", sample, names_[number]);
}

}  // namespace kinora::core
