#include "plugins/jobs/loading/data_order.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/base/digest.hpp"

namespace kinora::core {

DataOrder::DataOrder(const DataInput& input, uint64_t seed) : seed_(seed) {
  const DataReading& reading = input.reading;
  if (!reading.cache.empty()) cache_ = std::make_shared<SampleCache>(reading.cache, reading.cache_limit);
  std::string identity = fmt::format("kinora.order/1 seed {}\n", seed);
  root_ = open(input, "data", identity);
  digest_ = sha256(identity);
}

DataOrder::Node DataOrder::open(const DataInput& input, const std::string& stream, std::string& identity) {
  Node out;
  if (!input.is_blend()) {
    out.set = sets_.size();
    const auto& set = *sets_.emplace_back(std::make_unique<DataSet>(input, cache_));
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

namespace {

bool is_usable(const DataOrder::Draw& draw, const DataOrder::Use& use, std::string& why) {
  try {
    return use(draw, why);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    why = e.what();
    return false;
  }
}

}  // namespace

DataOrder::Draw DataOrder::at(uint64_t slot) const {
  const Node* node = &root_;
  while (node->blend) {
    const auto turn = node->blend->at(slot);
    node = &node->parts[turn.part];
    slot = turn.n;
  }
  return {node->set, node->order->at(slot), slot};
}

DataOrder::Draw DataOrder::instead(const Draw& unusable, uint64_t attempt) const {
  const Random random(seed_, "data/instead");
  const auto& order = *orders_[unusable.set];
  const auto bits = random.bits(unusable.n, attempt << 32 | unusable.set);
  // In the same epoch, so that its order of the shards is at hand.
  const uint64_t epoch = unusable.n / order.size(),
                 drawn = (uint64_t{bits[1]} << 32 | bits[0]) % order.size();
  return {unusable.set, order.at(epoch * order.size() + drawn), unusable.n};
}

std::string DataOrder::text_of(const Draw& draw) const { return sets_[draw.set]->text_of(draw.place); }

void DataOrder::find_usable(uint64_t slot, const Use& use, FailedSamples* failed) const {
  constexpr uint64_t kMost = 1000;
  const Draw first = at(slot);
  std::string why;
  for (uint64_t attempt = 0; attempt < kMost; ++attempt) {
    const Draw draw = attempt == 0 ? first : instead(first, attempt);
    why.clear();
    if (is_usable(draw, use, why)) {
      if (failed) failed->add_used(slot);
      return;
    }
    if (failed && !why.empty()) failed->add(text_of(draw), why);
  }
  throw Error(KINORA_ERROR_DATA,
              fmt::format("{}: {} samples in a row cannot be used; of the last: {}", sets_[first.set]->path(),
                          kMost, why.empty() ? "it is too short, held out or dropped" : why));
}

std::string DataOrder::key(uint64_t slot, const std::function<bool(const std::string&)>& accepts) {
  std::string out;
  find_usable(slot, [&](const Draw& draw, std::string&) {
    out = sets_[draw.set]->key(draw.place);
    return !accepts || accepts(out);
  });
  return out;
}

}  // namespace kinora::core
