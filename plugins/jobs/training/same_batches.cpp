#include "plugins/jobs/training/same_batches.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

std::string digest(const at::Tensor& t) {
  const at::Tensor whole = t.contiguous();
  Sha256 sha;
  const std::string form = c10::str(whole.scalar_type(), whole.sizes());
  sha.add(form.data(), form.size());
  sha.add(whole.data_ptr(), whole.nbytes());
  return sha.hex().substr(0, 16);
}

}  // namespace

void SameBatches::add(int64_t first, const NamedTensors& batch) {
  auto& digests = added_[first];
  for (const auto& [name, tensor] : batch) digests[name] = digest(tensor);
}

void SameBatches::compare(int64_t begin, int64_t end, int64_t step) {
  Facts mine;
  for (auto it = added_.lower_bound(begin); it != added_.end() && it->first < end; it = added_.erase(it))
    for (const auto& [name, hash] : it->second)
      mine.emplace_back(fmt::format("'{}' of the microbatch from sample {} on", name, it->first), hash);
  const json told{{"data_rank", parallel_.data_rank()}, {"tensors", mine}};
  std::map<int64_t, std::pair<size_t, Facts>> first;  // by data rank: the first of its ranks
  const auto texts = Exchange(parallel_.group("world")).gather(told.dump());
  for (size_t r = 0; r < texts.size(); ++r) {
    const json its = json::parse(texts[r]);
    const auto tensors = its.at("tensors").get<Facts>();
    const auto& [before, same] =
        first.try_emplace(its.at("data_rank").get<int64_t>(), r, tensors).first->second;
    if (tensors == same) continue;
    const auto apart = std::mismatch(tensors.begin(), tensors.end(), same.begin(), same.end());
    raise(KINORA_ERROR_DATA,
          "ranks {} and {} have different data in step {}: {}; they must read the same files, on sound disks "
          "and "
          "memory; rerun to continue from the last checkpoint",
          before, r, step, (apart.first != tensors.end() ? apart.first : apart.second)->first);
  }
}

}  // namespace kinora::core
