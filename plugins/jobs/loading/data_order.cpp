#include "plugins/jobs/loading/data_order.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/base/digest.hpp"

namespace kinora::core {

DataOrder::DataOrder(const DataInput& input, uint64_t seed) : seed_(seed) {
  std::string identity = fmt::format("kinora.order/1 seed {}\n", seed);
  root_ = open(input, "data", identity);
  digest_ = sha256(identity);
}

DataOrder::Node DataOrder::open(const DataInput& input, const std::string& stream, std::string& identity) {
  Node out;
  if (!input.is_blend()) {
    out.set = sets_.size();
    const auto& set = *sets_.emplace_back(std::make_unique<DataSet>(input.path));
    out.order =
        std::make_unique<ShardOrder>(set.samples(), static_cast<uint64_t>(input.shuffle), seed_, stream);
    out.slots = set.size();
    orders_.push_back(out.order.get());
    identity += fmt::format("{}: shuffle {} of {}\n", stream, input.shuffle, set.digest());
    return out;
  }
  std::vector<double> weights;
  for (const auto& part : input.parts) {
    const Node& opened =
        out.parts.emplace_back(open(part, fmt::format("{}/{}", stream, weights.size()), identity));
    const auto slots = static_cast<double>(opened.slots);
    weights.push_back(part.epochs > 0 ? part.epochs * slots : part.weight);
    out.slots += part.epochs > 0 ? static_cast<uint64_t>(std::llround(part.epochs * slots)) : opened.slots;
    identity += fmt::format("{}: share {:.17g}\n", stream, weights.back());
  }
  out.blend = std::make_unique<BlendOrder>(weights, seed_, stream);
  return out;
}

DataOrder::Draw DataOrder::at(uint64_t slot) const {
  const Node* node = &root_;
  while (node->blend) {
    const auto turn = node->blend->at(slot);
    node = &node->parts[turn.part];
    slot = turn.n;
  }
  return {node->set, node->order->at(slot), slot};
}

DataOrder::Draw DataOrder::instead(const Draw& damaged, uint64_t attempt) const {
  const Random random(seed_, "data/instead");
  const auto& order = *orders_[damaged.set];
  const auto bits = random.bits(damaged.n, attempt << 32 | damaged.set);
  // In the same epoch, so that its order of the shards is at hand.
  const uint64_t epoch = damaged.n / order.size(), drawn = (uint64_t{bits[1]} << 32 | bits[0]) % order.size();
  return {damaged.set, order.at(epoch * order.size() + drawn), damaged.n};
}

std::string DataOrder::key(uint64_t slot, const std::function<bool(const std::string&)>& accepts) {
  const Draw first = at(slot);
  Draw draw = first;
  std::string why = "no key is accepted";
  for (uint64_t attempt = 1; attempt <= kMostReplaced; ++attempt) {
    try {
      std::string key = sets_[draw.set]->key(draw.place);
      if (!accepts || accepts(key)) return key;
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA) throw;
      why = e.what();
    }
    draw = instead(first, attempt);
  }
  throw Error(KINORA_ERROR_DATA, fmt::format("{}: {} samples in a row cannot be used; of the last: {}",
                                             sets_[first.set]->path(), kMostReplaced, why));
}

}  // namespace kinora::core
