#include "plugins/jobs/loading/data_set.hpp"

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"

namespace kinora::core {

DataSet::DataSet(std::string path, std::shared_ptr<SampleCache> cache)
    : path_(std::move(path)), files_(path_, std::move(cache)), open_([this](size_t number) {
        return or_throw(WebDatasetShard::open_or_scan(
            shards_[number], {}, [this](std::string_view uri) { return files_.open(uri); }));
      }) {
  size_t without_index = 0;
  for (auto& file : or_throw(webdataset_list(path_))) {
    const size_t number = shards_.size();
    shards_.push_back(std::move(file.uri));
    if (file.samples) {
      samples_.push_back(*file.samples);
    } else {
      const auto opened = shard(number);
      without_index += opened->has_index() ? 0 : 1;
      samples_.push_back(opened->size());
    }
    size_ += samples_.back();
  }
  if (without_index > 0)
    log_warn("{}: {} without an index, so their headers were read; write it once with `kinora data index {}`",
             path_, counted(static_cast<int64_t>(without_index), "shard", "shards"), path_);
  if (size_ == 0)
    throw Error(KINORA_ERROR_DATA, path_ + ": contains no samples; check the job or program that made it");
}

std::string DataSet::digest() const {
  size_t shared = shards_.front().rfind('/') + 1;
  for (const auto& name : shards_)
    while (shared > 0 && name.compare(0, shared, shards_.front(), 0, shared) != 0)
      shared = shared > 1 ? shards_.front().rfind('/', shared - 2) + 1 : 0;
  std::string all;
  for (size_t i = 0; i < shards_.size(); ++i)
    all += shards_[i].substr(shared) + " " + std::to_string(samples_[i]) + "\n";
  return sha256(all);
}

WebDatasetSample DataSet::read(ShardOrder::Place place) {
  return or_throw(shard(place.shard)->at(place.sample));
}

uint64_t DataSet::bytes(ShardOrder::Place place) { return or_throw(shard(place.shard)->bytes(place.sample)); }

std::string DataSet::key(ShardOrder::Place place) { return or_throw(shard(place.shard)->key(place.sample)); }

}  // namespace kinora::core
