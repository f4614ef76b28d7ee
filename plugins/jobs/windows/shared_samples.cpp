#include "plugins/jobs/windows/shared_samples.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>

#include "core/base/clock.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

NamedTensors tensors_of(const LatentItem& item) {
  NamedTensors out = item.more;
  if (item.latent.defined()) out["latent"] = item.latent;
  if (item.text.defined()) out["text"] = item.text;
  return out;
}

// The table by which items_from() reads the bytes: [{"key", "tensors": [[name, dtype, shape], ...]}, ...].
json table_of(const std::vector<LatentItem>& items) {
  json out = json::array();
  for (const auto& item : items) {
    json tensors = json::array();
    for (const auto& [name, t] : tensors_of(item))
      tensors.push_back({name, static_cast<int>(t.scalar_type()), t.sizes().vec()});
    out.push_back({{"key", item.key}, {"tensors", tensors}});
  }
  return out;
}

// All numbers of all tensors, uint8 [n].
at::Tensor bytes_of(const std::vector<LatentItem>& items) {
  std::vector<at::Tensor> all{at::empty({0}, at::kByte)};
  for (const auto& item : items)
    for (const auto& [name, t] : tensors_of(item)) all.push_back(t.contiguous().view(-1).view(at::kByte));
  return at::cat(all);
}

std::vector<LatentItem> items_from(const json& table, const at::Tensor& bytes) {
  std::vector<LatentItem> out;
  int64_t at = 0;
  for (const auto& row : table) {
    LatentItem item{row.at("key").get<std::string>(), {}, {}, {}};
    for (const auto& entry : row.at("tensors")) {
      const at::Tensor t = at::empty(entry.at(2).get<std::vector<int64_t>>(),
                                     static_cast<at::ScalarType>(entry.at(1).get<int>()));
      const auto size = static_cast<int64_t>(t.nbytes());
      if (size > 0) std::memcpy(t.data_ptr(), bytes.narrow(0, at, size).data_ptr(), t.nbytes());
      at += size;
      const std::string name = entry.at(0);
      (name == "latent" ? item.latent : name == "text" ? item.text : item.more[name]) = t;
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace

SharedSamples::SharedSamples(const Parallelism& parallel, at::Device device, const Open& open)
    : world_(parallel.group("world"), device),
      group_(parallel.of_sample(), device),
      data_size_(parallel.data_size()) {
  world_.together([&] { own_ = open(); });
}

size_t SharedSamples::maker(const std::vector<int64_t>& numbers, size_t i) const {
  return (static_cast<size_t>(numbers.front() / data_size_) + i) % static_cast<size_t>(group_.size());
}

std::vector<int64_t> SharedSamples::own(const std::vector<int64_t>& numbers) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (maker(numbers, i) == static_cast<size_t>(group_.rank())) out.push_back(numbers[i]);
  return out;
}

void SharedSamples::prepare(const std::vector<int64_t>& numbers, int64_t) { own_->prepare(own(numbers), 0); }

void SharedSamples::begin_step(int64_t step, const NumbersOf& numbers) {
  const auto now = numbers(step);
  const auto each = static_cast<int64_t>(now.size()), ahead = (group_.size() + each - 1) / each;
  for (prepared_ = std::max(prepared_, step); prepared_ <= step + ahead; ++prepared_)
    prepare(numbers(prepared_), 0);
  gather(now);
}

void SharedSamples::gather(const std::vector<int64_t>& numbers) {
  std::vector<LatentItem> mine;
  std::chrono::steady_clock::time_point made;
  world_.together([&] {
    for (const int64_t n : own(numbers)) mine.push_back(own_->drawn(n));
    made = std::chrono::steady_clock::now();
  });
  const auto tables = group_.gather(dumped(table_of(mine)));
  const auto bytes = group_.gather(bytes_of(mine));
  std::vector<std::vector<LatentItem>> of_rank;
  for (size_t r = 0; r < tables.size(); ++r) of_rank.push_back(items_from(json::parse(tables[r]), bytes[r]));
  std::vector<size_t> taken(of_rank.size());
  gathered_.clear();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t r = maker(numbers, i);
    gathered_.emplace(numbers[i], std::move(of_rank[r].at(taken[r]++)));
  }
  waited_ += seconds_since(made);
}

std::vector<LatentSize> SharedSamples::latent_sizes(int64_t first, int64_t count) {
  std::vector<int64_t> mine;
  world_.together([&] {
    for (int64_t i = group_.rank(); i < count; i += group_.size()) {
      const LatentSize size = own_->latent_sizes(first + i, 1).at(0);
      mine.insert(mine.end(), size.begin(), size.end());
    }
  });
  const auto of_rank = group_.gather(at::tensor(mine, at::kLong));
  std::vector<LatentSize> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto* its = of_rank[static_cast<size_t>(i % group_.size())].data_ptr<int64_t>();
    std::copy_n(its + 3 * (i / group_.size()), 3, out[static_cast<size_t>(i)].begin());
  }
  return out;
}

double SharedSamples::take_wait() { return own_->take_wait() + std::exchange(waited_, 0.0); }

LatentItem SharedSamples::example() {
  gather({0});
  return drawn(0);
}

}  // namespace kinora::core
