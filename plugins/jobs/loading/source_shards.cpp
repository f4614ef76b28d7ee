#include "plugins/jobs/loading/source_shards.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::core {
namespace {

// The source does not tell the size of a sample, so bytes() reads it, and the samples that were read last are kept for
// the at() that follows.
class SourceShard final : public SampleShard {
 public:
  SourceShard(std::shared_ptr<const SourceInstance> source, std::string path, uint64_t first, uint64_t size)
      : source_(std::move(source)), path_(std::move(path)), first_(first), size_(size) {}

  uint64_t size() const override { return size_; }
  uint64_t offset(uint64_t i) const override { return first_ + i; }
  WebDatasetSample at(uint64_t i) const override {
    auto kept = take(i);
    return kept ? *std::move(kept) : read(i);
  }
  uint64_t bytes(uint64_t i) const override {
    auto sample = read(i);
    uint64_t out = 0;
    for (const auto& field : sample.fields) out += field.bytes.size();
    const std::scoped_lock lock(mutex_);
    if (kept_.size() == kMostKept) kept_.pop_front();
    kept_.emplace_back(i, std::move(sample));
    return out;
  }
  std::string key(uint64_t i) const override { return std::string(sample(i).key()); }
  nlohmann::json facts(uint64_t i) const override {
    const auto read = sample(i);
    const auto text = read.text("json");
    if (!text) return {};
    auto out = parse_facts(as_utf8(std::string(*text), fmt::format("the json of {}", read.key())));
    if (out.is_discarded())
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{}: the sample '{}', number {}: its json is not JSON, or nested more than 64 "
                              "levels deep; fix it, or remove the sample",
                              path_, read.key(), first_ + i));
    return out;
  }

 private:
  static constexpr size_t kMostKept = 8;  // more than there are readers

  Sample sample(uint64_t i) const { return source_->at(first_ + i); }
  WebDatasetSample read(uint64_t i) const {
    const auto from = sample(i);
    WebDatasetSample out{{std::string(from.key()), path_, first_ + i, 0}, {}};
    for (const auto& field : from.fields()) {
      const auto* bytes = static_cast<const uint8_t*>(field.bytes.data());
      out.fields.push_back({std::string(field.name), {bytes, bytes + field.bytes.size()}});
      out.where.size += field.bytes.size();
    }
    return with_utf8_json(std::move(out));
  }
  // The kept sample, which is kept no longer.
  std::optional<WebDatasetSample> take(uint64_t i) const {
    const std::scoped_lock lock(mutex_);
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.first == i; });
    if (found == kept_.end()) return std::nullopt;
    std::optional out = std::move(found->second);
    kept_.erase(found);
    return out;
  }

  const std::shared_ptr<const SourceInstance> source_;
  const std::string path_;
  const uint64_t first_, size_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<uint64_t, WebDatasetSample>> kept_;
};

}  // namespace

SourceShards::SourceShards(const DataSource& source, const std::string& path)
    : path_(path), source_(source.open(path)) {
  const auto count = source_->count();
  if (!count || !source_->has_at())
    throw Error(KINORA_ERROR_UNSUPPORTED,
                fmt::format("{}: {} gives its samples only one after the other, and a training takes them in "
                            "any order; the source needs {}",
                            path, source.id, !source_->has_at() ? "at()" : "count() for this data"));
  size_ = *count;
}

std::shared_ptr<const SampleShard> SourceShards::shard(uint64_t number) const {
  const uint64_t first = number * kSamples;
  return std::make_shared<SourceShard>(source_, path_, first, std::min(kSamples, size_ - first));
}

}  // namespace kinora::core
