#include "plugins/jobs/data/check_index.hpp"

#include <algorithm>

namespace kinora::data {
namespace {

constexpr const char* kRemedy = "; run kinora data index with --again";

bool is_same(const energon::StoredSample& a, const energon::StoredSample& b) {
  const auto same_part = [](const auto& x, const auto& y) {
    return x.name == y.name && x.offset == y.offset && x.size == y.size;
  };
  return a.key == b.key && a.offset == b.offset && a.size == b.size &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part);
}

}  // namespace

CheckIndex::CheckIndex(const DataFolder& folder, OnProblem problem) : problem_(std::move(problem)) {
  try {
    info_ = read_info(folder);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    problem_({".nv-meta/.info.json", "", {}, std::string("not as Energon writes it") + kRemedy});
  }
  if (!info_) return;
  if (folder.meta.contains("index.sqlite"))
    reading([&] { index_ = std::make_unique<StoredIndex>(folder.meta_uri("index.sqlite")); });
  if (folder.is_one_file) return;
  std::set<std::string> there;
  for (const auto& shard : folder.shards) there.insert(shard.name);
  for (const auto& [name, listed] : *info_)
    if (!there.contains(name))
      problem_({".nv-meta/.info.json",
                "",
                {},
                "names " + name + ", which is not there; fetch it, or run kinora data index"});
}

template <class F>
void CheckIndex::reading(F f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    index_.reset();
    is_compared_ = false;
    problem_({".nv-meta/index.sqlite", "", {}, e.what()});
  }
}

void CheckIndex::begin_shard(const std::string& name) {
  shard_ = name;
  count_ = 0;
  listed_ = nullptr;
  is_compared_ = false;
  if (!info_) return;
  const auto at = info_->find(name);
  if (at == info_->end())
    return problem_({name, "", {}, "not in .nv-meta/.info.json; run kinora data index"});
  listed_ = &at->second;
  is_compared_ = index_ != nullptr;
  if (is_compared_)
    reading([&] {
      index_->begin(listed_->number);
      expected_ = index_->next();
    });
}

void CheckIndex::compare(const energon::StoredSample& sample, bool is_left_out) {
  if (expected_ && is_same(*expected_, sample)) {
    expected_ = index_->next();
  } else if (!is_left_out) {
    is_compared_ = false;
    problem_({shard_, sample.key, sample.offset,
              std::string("index.sqlite has another sample or other positions") + kRemedy});
  }
}

void CheckIndex::add(const std::vector<energon::StoredSample>& samples, const std::set<uint64_t>& left_out) {
  count_ += samples.size();
  for (const auto& sample : samples)
    if (is_compared_) reading([&] { compare(sample, left_out.contains(sample.offset)); });
}

void CheckIndex::end_shard() {
  if (listed_ && listed_->samples != count_)
    problem_({shard_,
              "",
              {},
              fmt::format(".info.json says {} samples, there are {}{}", listed_->samples, count_, kRemedy)});
  if (is_compared_ && expected_)
    problem_({shard_, expected_->key, expected_->offset,
              std::string("index.sqlite has this sample, the shard does not") + kRemedy});
}

}  // namespace kinora::data
